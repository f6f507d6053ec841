import java.util.Map;
import java.util.function.BiConsumer;

/** What every Java program here is told: `name=value` arguments. */
final class Arguments {
    private Arguments() {}

    /** Put what was given over the defaults that are in `settings`. */
    static void read(String[] arguments, Map<String, String> settings) {
        for (String argument : arguments) {
            int equals = argument.indexOf('=');
            settings.put(argument.substring(0, equals), argument.substring(equals + 1));
        }
    }

    /** Hand on the settings that are the library's own: their names have a dot. */
    static void ofTheLibrary(Map<String, String> settings, BiConsumer<String, String> put) {
        settings.forEach((name, value) -> {
            if (name.contains(".")) {
                put.accept(name, value);
            }
        });
    }
}
