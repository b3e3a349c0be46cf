// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os/exec"
	"strings"
)

// module is the path that imports of this repository's own packages begin with.
const module = "github.com/getsetlock/getsetlock/"

// wall says what some packages may not reach: import, or import by a package of
// the module that they import, and so on. What a package may import by itself
// is in .golangci.yml.
type wall struct {
	of    []string // as go list takes them
	never []string // import paths, each with all below it
	why   string
}

var walls = []wall{
	{[]string{"./migrate"}, []string{module + "internal/operator", module + "skew"},
		"a service that migrates links no tool of its operator"},
	{[]string{"./skew/...", "./internal/operator/census", "./internal/operator/simulate",
		"./internal/operator/offset"},
		[]string{"net", "os", "syscall", "github.com/gomodule/redigo"}, "it does no I/O"},
}

// listing asks the go command for the module's packages that a wall's packages
// reach: a line for each, the package first and then what it imports.
func (w wall) listing(folder string) (string, error) {
	cmd := exec.Command("go", append([]string{"list", "-deps", "-f",
		`{{with .Module}}{{if .Main}}{{$.ImportPath}} {{join $.Imports " "}}{{end}}{{end}}`}, w.of...)...)
	cmd.Dir = folder
	out, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("go list %s: %w", strings.Join(w.of, " "), err)
	}
	return string(out), err
}

// breaches finds the forbidden imports in a listing.
func (w wall) breaches(listing string) (found []string) {
	for line := range strings.Lines(listing) {
		words := strings.Fields(line)
		for i, imported := range words {
			for _, never := range w.never {
				if i > 0 && strings.HasPrefix(imported+"/", never+"/") {
					found = append(found, fmt.Sprintf("%s imports %s for %s: %s", words[0], imported,
						strings.Join(w.of, " "), w.why))
				}
			}
		}
	}
	return found
}

// reached finds all breaches of the walls in the module of a folder.
func reached(folder string) (found []string, err error) {
	for _, w := range walls {
		listing, err := w.listing(folder)
		if err != nil {
			return nil, err
		}
		found = append(found, w.breaches(listing)...)
	}
	return found, nil
}
