// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/rehearse"
	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/verbs/auditverb"
	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/verbs/migrateverb"
	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/verbs/skewverb"
	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/verbs/smallverbs"
	"github.com/getsetlock/getsetlock/internal/operator/census"
	"github.com/getsetlock/getsetlock/internal/testing/golden"
)

// documents are the answers of --json by their schemas.
var documents = map[string]any{
	"ls": smallverbs.Locks{}, "version": smallverbs.Version{}, "rehearse": rehearse.Result{},
	"audit": auditverb.AuditDocument{}, "doctor": auditverb.DoctorDocument{},
	"migrate": migrateverb.Document{}, "migrate-log": migrateverb.LogDocument{}, "skew": skewverb.Document{},
}

// Each document has a JSON Schema, which follows from its Go type: names, types
// and nulls as out.PrintJSON writes them, and the comments of the fields. The
// module docs/reference/schema validates the pinned documents by it.
//
// A general generator does not know the tags of out.PrintJSON, so this one is
// written here.
func TestSchemasSayWhatTheTypesSay(t *testing.T) {
	for name, document := range documents {
		d := describer{t, name, map[string]string{}, map[string]string{}, map[string]bool{}}
		text, err := json.MarshalIndent(d.document(reflect.TypeOf(document)), "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		golden.Check(t, "../../../../docs/reference/schema/"+name+".json", string(text)+"\n")
	}
}

// schema is a JSON object whose members keep their order.
type schema []member

type member struct {
	name  string
	value any
}

func (s schema) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	for i, m := range s {
		value, err := json.Marshal(m.value)
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(&b, "%s%q:%s", map[bool]string{true: ","}[i > 0], m.name, value)
	}
	return []byte("{" + b.String() + "}"), nil
}

// describer makes the schema of one document.
type describer struct {
	t        *testing.T
	name     string            // of the document
	comments map[string]string // of "package.Type" and "package.Type.Field"
	same     map[string]string // "package.Type" that is defined as another one
	read     map[string]bool   // packages whose comments are known
}

func (d *describer) document(typ reflect.Type) schema {
	return append(schema{
		{"$schema", "https://json-schema.org/draft/2020-12/schema"},
		{"title", "getsetlock." + d.name + "/1"},
		{"description", d.comment(typ.PkgPath(), typ.Name(), "")},
	}, d.object(typ, typ.PkgPath(), false)...)
}

// value returns the schema of a value. how is its tag answer. pkg is the
// package that the comments of an unnamed struct are in.
func (d *describer) value(typ reflect.Type, how, pkg string) schema {
	if typ.Kind() == reflect.Pointer {
		return nullable(d.value(typ.Elem(), how, pkg))
	}
	if rest, null := strings.CutSuffix(how, "null"); null {
		if typ.Kind() == reflect.Map { // the tag counts for each value too
			values := d.value(typ.Elem(), how, pkg)
			return nullable(append(kind("object"), member{"additionalProperties", values}))
		}
		return nullable(d.value(typ, rest, pkg))
	}
	if typ.PkgPath() != "" {
		pkg = typ.PkgPath()
	}
	plain := strings.Contains(how, "plain")
	switch zero := reflect.Zero(typ).Interface().(type) {
	case census.Span:
		return nullable(kind("number"))
	case interface{ JSON() any }:
		return d.value(reflect.TypeOf(zero.JSON()), "", pkg)
	case time.Time:
		instant := append(kind("string"), member{"format", "date-time"})
		if plain {
			return instant
		}
		return nullable(instant)
	case time.Duration:
		return nullable(kind("number")) // a duration without a bound is null
	}
	switch k := typ.Kind(); {
	case strings.Contains(how, "text") && k != reflect.Slice:
		return kind("string")
	case k == reflect.Slice:
		return append(kind("array"), member{"items", d.value(typ.Elem(), how, pkg)})
	case k == reflect.Map:
		return append(kind("object"), member{"additionalProperties", d.value(typ.Elem(), how, pkg)})
	case k == reflect.Struct:
		return d.object(typ, pkg, plain)
	}
	if _, named := reflect.Zero(typ).Interface().(fmt.Stringer); named {
		return kind("string")
	}
	return kind(kinds[typ.Kind()])
}

var kinds = map[reflect.Kind]string{reflect.Bool: "boolean", reflect.Int: "integer", reflect.Int64: "integer",
	reflect.Uint64: "integer", reflect.Float64: "number", reflect.String: "string"}

func kind(name string) schema { return schema{{"type", name}} }

// nullable allows null too.
func nullable(s schema) schema {
	if name, single := s[0].value.(string); single {
		s[0].value = []string{name, "null"}
	}
	return s
}

// object returns the schema of a struct.
func (d *describer) object(typ reflect.Type, pkg string, plain bool) schema {
	properties, required := schema{}, []string{}
	d.fields(typ, pkg, plain, func(name string, s schema, always bool) {
		properties = append(properties, member{name, s})
		if always {
			required = append(required, name)
		}
	})
	return append(kind("object"), member{"required", required}, member{"properties", properties})
}

// fields calls f for each field of a struct, those of embedded ones included.
func (d *describer) fields(typ reflect.Type, pkg string, plain bool, f func(string, schema, bool)) {
	for field := range typ.Fields() {
		name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		how := field.Tag.Get("answer")
		inner := field.Type
		if inner.Kind() == reflect.Pointer {
			inner = inner.Elem()
		}
		switch {
		case name == "schema":
			f(name, schema{{"const", "getsetlock." + d.name + "/1"}}, true)
		case name == "" && (field.Anonymous || how == "inline") && inner.Kind() == reflect.Struct:
			d.fields(inner, inner.PkgPath(), plain, f)
		case name != "" && name != "-":
			if plain {
				how = "plain"
			}
			s := d.value(field.Type, how, pkg)
			says := d.comment(pkg, typ.Name(), field.Name)
			for inner.Kind() == reflect.Slice {
				inner = inner.Elem()
			}
			if says == "" && inner.PkgPath() != "time" {
				says = d.comment(inner.PkgPath(), inner.Name(), "")
			}
			if says == "" {
				d.t.Errorf("%s: %s.%s.%s has no comment", d.name, pkg, typ.Name(), field.Name)
			}
			f(name, append(schema{s[0], {"description", says}}, s[1:]...), options == "")
		}
	}
}

const module = "github.com/getsetlock/getsetlock/"

// comment returns the comment of a type, or of its field, in the names of the
// document.
func (d *describer) comment(pkg, typ, field string) string {
	if folder, ours := strings.CutPrefix(pkg, module); ours && !d.read[pkg] {
		d.read[pkg] = true
		files, err := filepath.Glob(filepath.Join("../../../..", folder, "*.go"))
		if err != nil || len(files) == 0 {
			d.t.Fatal(files, err)
		}
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments)
			if err != nil {
				d.t.Fatal(err)
			}
			d.learn(pkg, parsed)
		}
	}
	key := pkg + "." + typ
	key = cmp.Or(d.same[key], key)
	if field != "" {
		key += "." + field
	}
	return d.comments[key]
}

// learn remembers the comments of one file. A struct without a name is one that
// a method JSON returns.
func (d *describer) learn(pkg string, file *ast.File) {
	named := map[*ast.StructType]bool{}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GenDecl:
			for _, spec := range n.Specs {
				if s, ok := spec.(*ast.TypeSpec); ok && s.Doc == nil {
					s.Doc = n.Doc
				}
			}
		case *ast.TypeSpec:
			d.comments[pkg+"."+n.Name.Name] = sentence(n.Doc)
			switch defined := n.Type.(type) {
			case *ast.StructType:
				named[defined] = true
				d.structure(pkg+"."+n.Name.Name, defined)
			case *ast.Ident:
				d.same[pkg+"."+n.Name.Name] = pkg + "." + defined.Name
			}
		case *ast.StructType:
			if !named[n] {
				d.structure(pkg+".", n)
			}
		}
		return true
	})
}

// structure remembers the comments of a struct's fields. A comment above
// several fields names those that it is about.
func (d *describer) structure(typ string, s *ast.StructType) {
	above, inside := "", map[string]string{} // names in the document by those in Go
	for _, f := range s.Fields.List {
		if f.Tag == nil {
			continue
		}
		name, _, _ := strings.Cut(reflect.StructTag(strings.Trim(f.Tag.Value, "`")).Get("json"), ",")
		for _, n := range f.Names {
			inside[n.Name] = name
		}
	}
	for _, f := range s.Fields.List {
		for _, n := range f.Names {
			says := sentence(f.Doc)
			if says != "" {
				above = says
			}
			if says == "" {
				says = sentence(f.Comment)
			}
			if says == "" && regexp.MustCompile(`\b`+n.Name+`\b`).MatchString(above) {
				says = above
			}
			d.comments[typ+"."+n.Name] = word.ReplaceAllStringFunc(says, func(w string) string {
				if inside[w] != "" && w != strings.ToUpper(w) { // TTL is a word
					return inside[w]
				}
				return w
			})
		}
	}
}

var word = regexp.MustCompile(`\b[A-Z]\w*\b`)

// sentence returns a comment in one line.
func sentence(c *ast.CommentGroup) string { return strings.Join(strings.Fields(c.Text()), " ") }
