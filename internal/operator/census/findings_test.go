package census

import (
	"strings"
	"testing"
)

func TestFindingSaysOnceOrHowOften(t *testing.T) {
	for n, says := range map[int64]string{
		0: "", 1: "a:1: once it was still at work", 2: "a:1: 2 times it was still at work"} {
		all := writerDeeds(&Writer{Client: Client{Addr: "a:1"}, Counts: Counts{Overlaps: n}})
		if n == 0 && len(all) != 0 || n > 0 && (len(all) != 1 || !strings.HasPrefix(all[0].What, says)) {
			t.Errorf("of %d overlaps it says %+v", n, all)
		}
	}
}
