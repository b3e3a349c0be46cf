// SPDX-License-Identifier: Apache-2.0

package readme

import (
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The comparison has read the source of the versions that bench runs. If
// a version moves there, its source is to be read again.
func TestComparedVersionsAreThoseOfThePeers(t *testing.T) {
	mod, err := os.ReadFile(filepath.Join(root, "bench", "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(filepath.Join(root, "docs", "reference", "compared.md"))
	if err != nil {
		t.Fatal(err)
	}
	peers := regexp.MustCompile(`(?m)^\t(\S+(?:redsync/v4|redislock|/rueidis)) (\S+)$`).
		FindAllStringSubmatch(string(mod), -1)
	if len(peers) != 3 {
		t.Fatalf("bench/go.mod requires %d of the three libraries: %q", len(peers), peers)
	}
	for _, peer := range peers {
		if want := "`" + peer[1] + "` " + peer[2] + " |"; !strings.Contains(string(page), want) {
			t.Errorf("docs/reference/compared.md does not compare %s: read that version's source and mend the page", want)
		}
	}
}

// A code host shows a picture only if it is whole, and loads nothing for it.
func TestPictureNeedsNothingElse(t *testing.T) {
	found := 0
	for _, p := range pages(t) {
		shown := regexp.MustCompile(`(?m)^!\[[^]]+\]\(([^)]+)\)$`).FindAllStringSubmatch(p.text, -1)
		for _, m := range shown {
			found++
			checkPicture(t, filepath.Join(root, filepath.Dir(p.name), m[1]))
		}
	}
	if found == 0 {
		t.Error("no page shows a picture")
	}
}

func checkPicture(t *testing.T, name string) {
	t.Helper()
	raw, err := os.ReadFile(name)
	if err != nil {
		t.Error(err)
		return
	}
	text := string(raw)
	if !strings.Contains(text, "@media (prefers-color-scheme: dark)") {
		t.Errorf("%s has no colours for the dark", name)
	}
	d := xml.NewDecoder(strings.NewReader(text))
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
			return
		}
		begin, _ := token.(xml.StartElement)
		for _, a := range begin.Attr {
			if a.Name.Local == "href" || a.Name.Local != "xmlns" && strings.Contains(a.Value, "://") {
				t.Errorf("%s: <%s %s=%q> loads something", name, begin.Name.Local, a.Name.Local, a.Value)
			}
		}
	}
}
