package cli

import (
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/getsetlock/getsetlock/internal/bench"
	"github.com/getsetlock/getsetlock/internal/rehearse"
)

// chapters are the parts of docs/command.md by their headings.
func chapters(t *testing.T) map[string]string {
	t.Helper()
	text, err := os.ReadFile("../../docs/command.md")
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	for _, part := range strings.Split(string(text), "\n## ")[1:] {
		name, body, _ := strings.Cut(part, "\n")
		found[name] = body
	}
	return found
}

var flagName = regexp.MustCompile("`--([a-z-]+)`")

func TestTheDocumentNamesEveryFlagOfEveryVerbAndNoOther(t *testing.T) {
	all := chapters(t)
	for _, c := range newRoot(&Env{}).Commands() {
		if c.Hidden || c.Name() == "help" {
			continue
		}
		body, known := all[c.Name()]
		if !known {
			t.Errorf("there is no chapter on %s", c.Name())
			continue
		}
		c.Flags().VisitAll(func(f *pflag.Flag) {
			if !f.Hidden && f.Name != "help" && !strings.Contains(body, "`--"+f.Name+"`") {
				t.Errorf("%s: --%s is not named", c.Name(), f.Name)
			}
		})
		for _, m := range flagName.FindAllStringSubmatch(body, -1) {
			// Of the words of the introduction each verb has its part; help is everybody's.
			if f := c.Flags().Lookup(m[1]); f == nil && m[1] != "help" {
				t.Errorf("%s: --%s does not exist", c.Name(), m[1])
			}
		}
	}
}

// fieldsOf are the names of a document's fields, those of its parts included.
func fieldsOf(typ reflect.Type) []string {
	for typ.Kind() == reflect.Pointer || typ.Kind() == reflect.Slice {
		typ = typ.Elem()
	}
	if typ.Kind() != reflect.Struct {
		return nil
	}
	var names []string
	for f := range typ.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name != "" && name != "schema" {
			names = append(names, name)
		}
		if name != "" || f.Anonymous {
			names = append(names, fieldsOf(f.Type)...)
		}
	}
	return names
}

func TestTheDocumentNamesEveryFieldOfTheJSON(t *testing.T) {
	all := chapters(t)
	for verb, document := range map[string]any{
		"ls": lsAnswer{}, "version": versionAnswer{}, "rehearse": rehearse.Result{}, "bench": bench.Row{},
		"audit": auditDocument{}, "doctor": doctorDocument{}, "migrate": migrateAnswer{}, "skew": skewDocument{},
	} {
		names := fieldsOf(reflect.TypeOf(document))
		if len(names) < 5 {
			t.Errorf("%s: only %q", verb, names)
		}
		for _, name := range names {
			if !strings.Contains(all[verb], "`"+name+"`") {
				t.Errorf("%s: %s is not named", verb, name)
			}
		}
		if !strings.Contains(all[verb], "getsetlock."+verb+"/1") {
			t.Errorf("%s: the schema is not named", verb)
		}
	}
}

func TestTheDocumentNamesCodesAndVariables(t *testing.T) {
	all := chapters(t)
	for _, code := range []int{codeRunLost, codeRunHeld, codeRunFailed, 126, 127} {
		if !strings.Contains(all["run"], "\n| "+decimal(int64(code))+" |") {
			t.Errorf("run: %d is not in the table of codes", code)
		}
	}
	for _, code := range []int{codeWell, codeBad, codeUse, codeFailed} {
		if !strings.Contains(all["Everywhere"], "\n| "+decimal(int64(code))+" |") {
			t.Errorf("%d is not in the table of codes", code)
		}
	}
	for _, name := range slices.Concat(serverVariables, lockVariables) {
		if !strings.Contains(all["Everywhere"], "`"+name+"`") {
			t.Errorf("%s is not named", name)
		}
	}
	for _, state := range []string{stateHeld, stateExpired, stateUnreadable, protocolLegacy, protocolModern, protocolDual, protocolTombstone} {
		if !slices.Contains(regexp.MustCompile("[a-z]+").FindAllString(all["ls"], -1), state) {
			t.Errorf("ls: %s is not named", state)
		}
	}
}
