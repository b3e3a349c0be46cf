// java Record.java > java.txt: what ObjectOutputStream writes for a String, as Spring's default
// serializer does: a JSON text (or x repeated), and the bytes in hex, the first 40 of long ones.
import java.io.*;
import java.util.HexFormat;

public class Record {
    public static void main(String[] args) throws Exception {
        System.out.println("# ObjectOutputStream.writeObject of Java " + System.getProperty("java.version"));
        for (String s : new String[] {"\"lock\"", "\"\"", "\"1400000060124\"", "\"\\u0000\"", "\"a\\u0000b\"", "\"\\u00e9\"", "\"\\u20ac\"",
                "\"\\ud83d\\ude00\"", "\"\\uffff\"", "\"\\u07ff\\u0800\"", "\"\\ud7ff\\ue000\"", "\"\\udbff\\udfff\"", "\"stock:{42}\""})
            System.out.println("text " + s + " " + hex(unescape(s)));
        for (int n : new int[] {65535, 65536, 70000})
            System.out.println("repeat " + n + " " + hex("x".repeat(n)));
        System.out.println("repeat-nul " + 40000 + " " + hex("\0".repeat(40000)));
    }

    static String hex(String s) throws IOException {
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        new ObjectOutputStream(out).writeObject(s);
        byte[] b = out.toByteArray();
        return HexFormat.of().formatHex(b, 0, Math.min(40, b.length)) + " " + b.length;
    }

    static String unescape(String json) {
        StringBuilder b = new StringBuilder();
        for (int i = 1; i < json.length() - 1; i++)
            if (json.charAt(i) == '\\') { b.append((char) Integer.parseInt(json.substring(i + 2, i + 6), 16)); i += 5; }
            else b.append(json.charAt(i));
        return b.toString();
    }
}
