// SPDX-License-Identifier: Apache-2.0

package twokey

import (
	"embed"
	"io/fs"
	"regexp"

	"github.com/getsetlock/getsetlock/internal/fencing"
	"github.com/getsetlock/getsetlock/internal/wire"
)

//go:embed *.lua part guard stamp
var files embed.FS

// Scripts that may draw a number exist twice: only the second one has the
// counter among its keys.
var (
	observeScript = script(2, ".", "observe")
	deleteScript  = script(2, ".", "delete")
	numberScript  = script(1, "guard", "number")

	stampAcquire = script(3, "stamp", "acquire")
	stampRenew   = script(2, "stamp", "renew")
	stampCheck   = script(2, "stamp", "check")
	stampRelease = script(2, "stamp", "release")
	stampFinish  = script(2, "stamp", "finish")

	guardAcquire       = script(3, "guard", "acquire")
	guardAcquireNumber = script(4, "guard", "acquire")
	guardRenew         = script(2, "guard", "renew")
	guardCheck         = script(2, "guard", "check")
	guardRelease       = script(2, "guard", "release")
	guardLeave         = script(2, "guard", "leave")
	guardDone          = script(2, "guard", "done")
)

func script(keys int, dir, name string) *wire.Script { return wire.NewScript(keys, Source(dir, name)) }

var insert = regexp.MustCompile(`-- insert (\w+)\n`)

// Source returns a script with the parts that it asks for, from its directory
// or from the one that all share. Scripts ask as late as they can, since a
// function costs the server time even where it is not called.
func Source(dir, name string) string {
	text, err := fs.ReadFile(files, dir+"/"+name+".lua")
	if dir == "." {
		text, err = fs.ReadFile(files, name+".lua")
	}
	if err != nil {
		text, err = fs.ReadFile(files, "part/"+name+".lua")
	}
	if err != nil {
		panic(err) // it is in the program
	}
	return insert.ReplaceAllStringFunc(string(text), func(line string) string {
		part := insert.FindStringSubmatch(line)[1]
		if part == "draw" {
			return fencing.Draw()
		}
		return Source(dir, part)
	})
}
