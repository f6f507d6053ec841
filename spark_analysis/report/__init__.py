"""The same findings four ways: a terminal summary, one offline HTML file, Markdown, JUnit XML."""
