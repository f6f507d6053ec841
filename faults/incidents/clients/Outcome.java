/** What every Java program here writes alike into its outcome lines. */
final class Outcome {
    private Outcome() {}

    /** Microseconds since the epoch. */
    static long nowUs() {
        return System.currentTimeMillis() * 1000;
    }

    /** A text as JSON. */
    static String quoted(String text) {
        StringBuilder quoted = new StringBuilder("\"");
        for (char each : text.toCharArray()) {
            if (each == '"' || each == '\\') {
                quoted.append('\\').append(each);
            } else if (each < ' ') {
                quoted.append(String.format("\\u%04x", (int) each));
            } else {
                quoted.append(each);
            }
        }
        return quoted.append('"').toString();
    }
}
