package migrate

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/getsetlock/getsetlock/internal/scope"
	"github.com/getsetlock/getsetlock/migrate/internal/record"
)

// Origin is the namespace out of which another one was carved. The zero Origin
// means none.
type Origin struct {
	Namespace string
	Epoch     int64 // epoch of the first record of Namespace that lists the carved one
}

// Lists reports that a longer namespace was carved out of the record's.
func (r Record) Lists(longer string) bool { return slices.Contains(r.Except, longer) }

func (o Origin) text() string {
	if o == (Origin{}) {
		return record.None
	}
	return strconv.FormatInt(o.Epoch, 10) + "/" + record.Word(o.Namespace)
}

func readOrigin(r *record.Reader, text string) Origin {
	if text == record.None {
		return Origin{}
	}
	epoch, namespace, ok := strings.Cut(text, "/")
	o := Origin{Namespace: r.Word(namespace), Epoch: r.Number(epoch)}
	if !ok || o.Epoch == 0 {
		r.Bad("origin", text)
	}
	return o
}

// exceptText lists namespaces as words, sorted, with commas between them. The
// empty text means none, since a carved namespace is never empty.
func exceptText(except []string) string {
	words := make([]string, len(except))
	for i, namespace := range slices.Sorted(slices.Values(except)) {
		words[i] = record.Word(namespace)
	}
	return strings.Join(words, ",")
}

func readExcept(r *record.Reader, text string) []string {
	if text == "" {
		return nil
	}
	var except []string
	for _, word := range strings.Split(text, ",") {
		except = append(except, r.Word(word))
	}
	if exceptText(except) != text || len(slices.Compact(slices.Clone(except))) != len(except) ||
		slices.Contains(except, "") {
		r.Bad("namespaces", text)
	}
	return except
}

// alsoText lists namespaces with the number of leases that run under each, as
// in "order%3Aeu%3A:2,stock%3A:0". The empty text means none.
func alsoText(also map[string]int) string {
	var words []string
	for _, namespace := range slices.Sorted(maps.Keys(also)) {
		words = append(words, fmt.Sprintf("%s:%d", record.Word(namespace), also[namespace]))
	}
	return strings.Join(words, ",")
}

func readAlso(r *record.Reader, text string) map[string]int {
	if text == "" {
		return nil
	}
	also := map[string]int{}
	for _, word := range strings.Split(text, ",") {
		namespace, count, _ := strings.Cut(word, ":")
		also[r.Word(namespace)] = int(r.Number(count))
	}
	if _, empty := also[""]; empty || alsoText(also) != text {
		r.Bad("namespaces", text)
	}
	return also
}

// checkAlso refuses names that do not continue the member's own namespace.
func (cfg MemberConfig) checkAlso() error {
	for i, longer := range cfg.Also {
		switch {
		case longer == cfg.Namespace || !scope.Within(cfg.Namespace, longer):
			return fmt.Errorf("migrate: MemberConfig.Also has %q, which does not continue Namespace %q: name longer namespaces there, into which keys of this one may be carved out", longer, cfg.Namespace)
		case slices.Contains(cfg.Also[:i], longer):
			return fmt.Errorf("migrate: MemberConfig.Also has %q twice", longer)
		}
		if err := record.CheckNamespace(longer); err != nil {
			return fmt.Errorf("migrate: MemberConfig.Also: %w", err)
		}
	}
	return nil
}
