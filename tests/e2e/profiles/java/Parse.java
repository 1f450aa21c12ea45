import java.math.BigInteger;
import java.text.Normalizer;
import java.time.*;
import java.util.*;
import java.util.function.Function;
import java.util.regex.*;
import java.util.stream.*;

/** Text and collections: a parser of JSON, patterns, groups, dates, large numbers, sorted maps. */
public class Parse {
    private final String text;
    private int at = 0;

    Parse(String text) {
        this.text = text;
    }

    private static final Pattern TOKEN =
            Pattern.compile("\\s*(?:([{}\\[\\],:])|\"((?:[^\"\\\\]|\\\\.)*)\"|(-?\\d+(?:\\.\\d+)?)|(true|false|null))\\s*");

    private Matcher next() {
        Matcher token = TOKEN.matcher(text).region(at, text.length());
        if (!token.lookingAt()) {
            throw new IllegalArgumentException("at " + at);
        }
        at = token.end();
        return token;
    }

    private boolean eats(char wanted) {
        boolean is = at < text.length() && text.charAt(at) == wanted;
        if (is) {
            next();
        }
        return is;
    }

    Object value() {
        Matcher token = next();
        if (token.group(2) != null) {
            return token.group(2).replace("\\n", "\n").replace("\\\"", "\"");
        }
        if (token.group(3) != null) {
            return Double.valueOf(token.group(3));
        }
        if (token.group(4) != null) {
            return token.group(4).equals("null") ? "nothing" : Boolean.valueOf(token.group(4));
        }
        return token.group(1).equals("{") ? object() : array();
    }

    private Map<String, Object> object() {
        Map<String, Object> map = new TreeMap<>();
        while (!eats('}')) {
            String key = (String) value();
            next();
            map.put(key, value());
            eats(',');
        }
        return map;
    }

    private List<Object> array() {
        List<Object> list = new ArrayList<>();
        while (!eats(']')) {
            list.add(value());
            eats(',');
        }
        return list;
    }

    record Word(String text, int length) { }

    public static void main(String[] arguments) {
        System.out.println(new Parse("{\"b\": [1, -2.5, true, null], \"a\": {\"c\": \"x \\\"y\\\"\"}}").value());
        try {
            new Parse("[1, ?]").value();
        } catch (IllegalArgumentException wrong) {
            System.out.println(wrong.getMessage());
        }
        Map<Integer, List<String>> byLength = Stream.of("one", "two", "three", "four").map(text -> new Word(text, text.length()))
                .collect(Collectors.groupingBy(Word::length, TreeMap::new, Collectors.mapping(Word::text, Collectors.toList())));
        System.out.println(byLength);
        System.out.println(Pattern.compile("(?<key>\\w+)=(?<value>\\w+)").matcher("a=1;b=2").replaceAll("${value}<-${key}"));
        System.out.println(Normalizer.normalize("\u0065\u0301", Normalizer.Form.NFC).length());
        System.out.println(LocalDate.of(2024, 2, 28).plusDays(1) + " "
                + ZonedDateTime.of(2024, 7, 1, 12, 0, 0, 0, ZoneId.of("Europe/Berlin")).toInstant());
        System.out.println(BigInteger.TWO.pow(521).subtract(BigInteger.ONE).isProbablePrime(20));
        System.out.println(String.format(Locale.GERMANY, "%,.2f", 1234567.891));
        Map<Integer, Long> hashed = IntStream.range(0, 200_000).boxed().parallel()
                .collect(Collectors.groupingByConcurrent(n -> n % 7, Collectors.counting()));
        System.out.println(new TreeMap<>(hashed).values());
    }
}
