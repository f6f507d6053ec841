"""Writes the fault builders of the Java and Go libraries from the fault schemas of the OpenAPI document."""
