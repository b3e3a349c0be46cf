// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// pinned are the files of documents that the command's tests compare with what
// it prints.
const pinned = "../../../cmd/getsetlock/internal/*/testdata/*.json"

// Every schema has a pinned document, and every pinned document fits its
// schema. go test does not see when files of another module change, so -count=1
// is needed after a change of one.
func TestPinnedDocumentsFitTheirSchemas(t *testing.T) {
	schemas, fitted := compiled(t), map[string]int{}
	for _, pattern := range []string{pinned, strings.Replace(pinned, "*", "verbs/*", 1)} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			for _, document := range read(t, file) {
				title, _ := document.(map[string]any)["schema"].(string)
				schema := schemas[title]
				if schema == nil {
					t.Errorf("%s: there is no schema of %q", file, title)
					continue
				}
				fitted[title]++
				if err := schema.Validate(document); err != nil {
					t.Errorf("%s: %v", file, err)
				}
			}
		}
	}
	for title := range schemas {
		if fitted[title] == 0 {
			t.Errorf("no pinned document has the schema %s", title)
		}
	}
}

// A document whose field has another name or type does not fit.
func TestChangedFieldsDoNotFit(t *testing.T) {
	schema := compiled(t)["getsetlock.version/1"]
	const fits = `{"schema": "getsetlock.version/1", "version": "v1", "revision": null, "time": null,
		"modified": false, "go": "go1", "platform": "a/b", "stores": ["redis"]}`
	for _, change := range [][2]string{ // first, nothing
		{"", ""},
		{`"modified"`, `"changed"`},
		{`"modified": false`, `"modified": "no"`},
		{`"stores": ["redis"]`, `"stores": null`},
		{`"go": "go1"`, `"go": "go1", "new": 1`},
		{`version/1`, `version/2`},
	} {
		text := strings.Replace(fits, change[0], change[1], 1)
		document, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		if err := schema.Validate(document); (err == nil) != (change[0] == "") {
			t.Errorf("%s in place of %s: %v", change[1], change[0], err)
		}
	}
}

// compiled returns the schemas by their titles. Readers of a document ignore
// fields that they do not know. Here an unknown field is an error.
func compiled(t *testing.T) map[string]*jsonschema.Schema {
	t.Helper()
	files, err := filepath.Glob("*.json")
	if err != nil || len(files) < 8 {
		t.Fatal(files, err)
	}
	all := map[string]*jsonschema.Schema{}
	for _, file := range files {
		text := read(t, file)[0]
		c := jsonschema.NewCompiler()
		c.AssertFormat()
		if err := c.AddResource(file, closed(text)); err != nil {
			t.Fatal(err)
		}
		schema, err := c.Compile(file)
		if err != nil {
			t.Fatal(err)
		}
		all[text.(map[string]any)["title"].(string)] = schema
	}
	return all
}

// closed forbids fields that a schema does not name.
func closed(schema any) any {
	switch s := schema.(type) {
	case map[string]any:
		for _, inner := range s {
			closed(inner)
		}
		if kind, ok := s["type"]; ok && s["required"] != nil && holds(kind, "object") {
			s["additionalProperties"] = false
		}
	case []any:
		for _, inner := range s {
			closed(inner)
		}
	}
	return schema
}

// holds reports whether a value is a word, or a list that has it.
func holds(value any, word string) bool {
	list, _ := value.([]any)
	return value == word || slices.Contains(list, any(word))
}

// read returns the documents of a file.
func read(t *testing.T, file string) (all []any) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for d := json.NewDecoder(bytes.NewReader(text)); ; {
		var raw json.RawMessage
		err := d.Decode(&raw)
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		document, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		all = append(all, document)
	}
}
