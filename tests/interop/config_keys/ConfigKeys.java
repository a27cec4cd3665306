import java.lang.reflect.Field;
import java.lang.reflect.Modifier;
import java.util.Arrays;
import java.util.Collection;
import java.util.Optional;
import java.util.stream.Collectors;

/**
 * Prints the configuration keys of the classes named on the command line, one per line.
 *
 * <p>Pulsar's classes declare keys as annotated fields, which are printed with their defaults.
 * BookKeeper's classes name keys in constants, which are printed without defaults.
 */
public class ConfigKeys {
    public static void main(String[] names) throws Exception {
        for (String name : names) {
            Class<?> type = Class.forName(name);
            Object defaults = isPulsars(type) ? type.getConstructor().newInstance() : null;
            for (Field field : type.getDeclaredFields()) {
                field.setAccessible(true);
                boolean isStatic = Modifier.isStatic(field.getModifiers());
                if (isStatic && defaults == null && field.getType() == String.class) {
                    System.out.println(field.get(null));
                } else if (isKey(field)) {
                    System.out.println(field.getName() + "=" + text(field.get(defaults)));
                }
            }
        }
    }

    private static boolean isPulsars(Class<?> type) {
        return Arrays.stream(type.getDeclaredFields()).anyMatch(ConfigKeys::isKey);
    }

    private static boolean isKey(Field field) {
        return Arrays.stream(field.getAnnotations())
                .anyMatch(it -> it.annotationType().getSimpleName().equals("FieldContext"));
    }

    /** Returns the value as it would be written in a configuration file. */
    private static String text(Object value) {
        if (value instanceof Optional<?> optional) {
            return text(optional.orElse(null));
        }
        if (value instanceof Collection<?> values) {
            return values.stream().map(String::valueOf).sorted().collect(Collectors.joining(","));
        }
        return value == null ? "" : value.toString();
    }
}
