package fleet

import (
	"strings"
	"testing"

	"github.com/getsetlock/getsetlock/migrate"
)

// TestCarvedWordsAreReadStrictly: of a list there is one form, sorted.
func TestCarvedWordsAreReadStrictly(t *testing.T) {
	head := migrate.Record{Epoch: 3, Phase: migrate.Dual, Since: pinnedAt, Dialect: "Jedis"}.String()
	head = head[:len(head)-len("except= from=-")]
	for words, good := range map[string]bool{
		"except= from=-": true, "except=a,b from=-": true, "except=%3A from=2/": true, "except= from=2/a": true, "except=- from=-": true,
		"except=b,a from=-": false, "except=a,a from=-": false, "except=a, from=-": false, "except=, from=-": false, "except=: from=-": false,
		"except= from=": false, "except= from=a": false, "except= from=0/a": false, "except= from=/a": false, "except= from=02/a": false, "except= from=-1/a": false,
	} {
		if r, err := migrate.ParseRecord(head + words); (err == nil) != good {
			t.Errorf("%q is read as %+v (%v)", words, r, err)
		}
	}
	text := migrate.MemberState{ID: "a", Seen: pinnedAt}.String()
	for words, good := range map[string]bool{
		" also= oldest=0 except=": true, " also=a:0,b:2 oldest=7 except=a": true,
		" also=a oldest=0 except=": false, " also=a:-1 oldest=0 except=": false, " also=b:0,a:0 oldest=0 except=": false, " also=:1 oldest=0 except=": false,
		" also=a:0,a:0 oldest=0 except=": false, " also= oldest= except=": false,
	} {
		if m, err := migrate.ParseMember(strings.Replace(text, " also= oldest=0 except=", words, 1)); (err == nil) != good {
			t.Errorf("%q is read as %+v (%v)", words, m, err)
		}
	}
}
