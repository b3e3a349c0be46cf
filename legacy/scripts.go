package legacy

import (
	_ "embed"
	"errors"
	"strings"

	"github.com/getsetlock/getsetlock/internal/wire"
)

//go:embed shared.lua
var sharedLua string

//go:embed acquire.lua
var acquireLua string

//go:embed renew.lua
var renewLua string

//go:embed check.lua
var checkLua string

//go:embed release.lua
var releaseLua string

//go:embed finish.lua
var finishLua string

//go:embed observe.lua
var observeLua string

//go:embed delete.lua
var deleteLua string

var (
	acquireScript = wire.NewScript(3, sourceOf(acquireLua))
	renewScript   = script(renewLua)
	checkScript   = script(checkLua)
	releaseScript = script(releaseLua)
	finishScript  = script(finishLua)
	observeScript = script(observeLua)
	deleteScript  = script(deleteLua)
)

func script(source string) *wire.Script { return wire.NewScript(2, sourceOf(source)) }

// sourceOf inserts what all scripts share after the line that names this one.
func sourceOf(source string) string {
	line, body, _ := strings.Cut(source, "\n")
	return line + "\n" + sharedLua + body
}

var errOddReply = errors.New("the server's reply does not have the form that the script returns")
