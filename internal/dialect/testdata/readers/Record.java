// java Record.java < texts.json > java.txt: what Long.parseLong makes of each text, and JedisUUID's
// way of it: split at the colon, UUID.fromString, Long.parseLong.
import java.nio.charset.StandardCharsets;
import java.util.*;
import java.util.regex.*;

public class Record {
    public static void main(String[] args) throws Exception {
        String json = new String(System.in.readAllBytes(), StandardCharsets.UTF_8);
        System.out.println("# Long.parseLong and uuid:long of Java " + System.getProperty("java.version"));
        Matcher m = Pattern.compile("\"((?:[^\"\\\\]|\\\\.)*)\"").matcher(json);
        while (m.find())
            System.out.println(m.group() + " long " + parse(unescape(m.group(1))) + " uuid " + parseBoth(unescape(m.group(1))));
    }

    static String parse(String text) {
        try {
            return "" + Long.parseLong(text);
        } catch (NumberFormatException e) {
            return "unreadable";
        }
    }

    static String parseBoth(String text) {
        try {
            String[] parts = text.split(":");
            UUID id = UUID.fromString(parts[0]);
            return id + ":" + Long.parseLong(parts[1]);
        } catch (Exception e) {
            return "unreadable";
        }
    }

    static String unescape(String s) {
        StringBuilder b = new StringBuilder();
        for (int i = 0; i < s.length(); i++) {
            char c = s.charAt(i);
            if (c != '\\') { b.append(c); continue; }
            c = s.charAt(++i);
            if (c == 'u') { b.append((char) Integer.parseInt(s.substring(i + 1, i + 5), 16)); i += 4; }
            else b.append(c == 't' ? '\t' : c == 'n' ? '\n' : c == 'r' ? '\r' : c == 'f' ? '\f' : c == 'b' ? '\b' : c);
        }
        return b.toString();
    }
}
