// SPDX-License-Identifier: Apache-2.0

package reading

import (
	"slices"
	"strconv"
	"strings"

	"github.com/getsetlock/getsetlock/internal/scope"
)

// Forgets reports whether nothing is known of the watched keys after a command.
// SWAPDB may be sent in any database: it names the two whose keys change
// places.
func Forgets(s scope.Scope, name string, database int, args []string) bool {
	switch name {
	case "FLUSHALL":
		return true
	case "FLUSHDB":
		return database == s.Database()
	case "SWAPDB":
		return slices.Contains(args[1:], strconv.Itoa(s.Database()))
	}
	return false
}

// Target returns the database in which a command leaves its key.
func Target(name string, database int, args []string) int {
	text := ""
	switch {
	case name == "MOVE" && len(args) > 2:
		text = args[2]
	case name == "COPY":
		for i := 3; i+1 < len(args); i++ {
			if strings.EqualFold(args[i], "DB") {
				text = args[i+1]
			}
		}
	}
	if n, err := strconv.Atoi(text); err == nil {
		return n
	}
	return database
}

// IsScript reports whether a command runs a script.
func IsScript(name string) bool {
	return strings.HasPrefix(name, "EVAL") || strings.HasPrefix(name, "FCALL")
}
