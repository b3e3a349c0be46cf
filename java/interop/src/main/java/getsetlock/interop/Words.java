// SPDX-License-Identifier: Apache-2.0
package getsetlock.interop;

import java.net.URLDecoder;
import java.net.URLEncoder;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;

/**
 * Words of the line protocol. Parentheses are always escaped inside a word, so
 * data can never look like these two names.
 */
final class Words {
    private static final String EMPTY = "()";
    private static final String NIL = "(nil)";

    private Words() {}

    static String encode(String word) {
        if (word == null) {
            return NIL;
        }
        return word.isEmpty() ? EMPTY : URLEncoder.encode(word, StandardCharsets.UTF_8);
    }

    static List<String> split(String line) {
        List<String> words = new ArrayList<>();
        for (String w : line.split(" ")) {
            words.add(switch (w) {
                case NIL -> null;
                case EMPTY -> "";
                default -> URLDecoder.decode(w, StandardCharsets.UTF_8);
            });
        }
        return words;
    }
}
