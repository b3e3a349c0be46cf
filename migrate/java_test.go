// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/getsetlock/getsetlock/internal/record"
	"github.com/getsetlock/getsetlock/internal/twokey"
)

var updateJava = flag.Bool("update-java", false, "write Scripts.java anew")

const javaFolder = "java/dual/src/main/java/getsetlock/dual"

// javaScripts are the sources as the bridge sends them, so that their digests
// are the same.
func javaScripts() [][2]string {
	return [][2]string{
		{"ACQUIRE", twokey.Source("guard", "acquire")},
		{"RENEW", twokey.Source("guard", "renew")},
		{"CHECK", twokey.Source("guard", "check")},
		{"RELEASE", twokey.Source("guard", "release")},
		{"LEAVE", twokey.Source("guard", "leave")},
		{"SWEEP", record.SweepLua},
		{"BEAT", record.BeatLua},
		{"STEP", record.StepLua},
	}
}

const javaHead = `// SPDX-License-Identifier: Apache-2.0
package getsetlock.dual;

import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;

/** The scripts of the Go bridge, byte for byte. This file is made by a test of that bridge; don't change it by hand. */
enum Scripts {
`

const javaTail = `
    final String source;
    final String sha;

    Scripts(String... lines) {
        source = String.join("\n", lines);
        try {
            StringBuilder hex = new StringBuilder();
            for (byte b : MessageDigest.getInstance("SHA-1").digest(source.getBytes(StandardCharsets.UTF_8))) {
                hex.append(String.format("%02x", b));
            }
            sha = hex.toString();
        } catch (NoSuchAlgorithmException never) {
            throw new AssertionError(never);
        }
    }
}
`

var javaString = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\t", `\t`)

func javaSource() string {
	var scripts []string
	for _, s := range javaScripts() {
		var lines []string
		for _, line := range strings.Split(s[1], "\n") {
			lines = append(lines, `        "`+javaString.Replace(line)+`"`)
		}
		scripts = append(scripts, fmt.Sprintf("    %s(\n%s)", s[0], strings.Join(lines, ",\n")))
	}
	return javaHead + strings.Join(scripts, ",\n\n") + ";\n" + javaTail
}

func TestJavaSendsTheScriptsOfTheBridge(t *testing.T) {
	isOrBecomes(t, filepath.Join("..", javaFolder, "Scripts.java"),
		func(string) string { return javaSource() })
}

// isOrBecomes compares a file with what it should be, and writes it where that
// is asked for.
func isOrBecomes(t *testing.T, path string, should func(is string) string) {
	t.Helper()
	is, err := os.ReadFile(path)
	if err != nil && !(*updateJava && os.IsNotExist(err)) {
		t.Fatal(err)
	}
	want := should(string(is))
	if want == string(is) {
		return
	}
	if !*updateJava {
		t.Errorf("%s is not what it is made from (-update-java writes it)", path)
	} else if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
		t.Fatal(err)
	}
}
