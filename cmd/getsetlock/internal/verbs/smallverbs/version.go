// SPDX-License-Identifier: Apache-2.0

package smallverbs

import (
	"fmt"
	"maps"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/backing"
	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/out"
)

// Version is the document of version --json.
type Version struct {
	Schema   string  `json:"schema"`
	Version  string  `json:"version"`  // of the module, as a tag or a pseudo-version
	Revision *string `json:"revision"` // the commit, if known
	Time     *string `json:"time"`     // of the commit, if known
	Modified bool    `json:"modified"` // the sources differed from the commit
	Go       string  `json:"go"`       // version of the compiler
	Platform string  `json:"platform"` // operating system and architecture

	// Stores are those in which this program takes locks, by the schemes of
	// their addresses, sorted.
	Stores []string `json:"stores"`
}

// linked is the version that the linker wrote into the binary, with -X. A build
// outside a clone, such as the container image's, knows no other version.
var linked string

// NewVersion returns the verb version.
func NewVersion(e *out.Env) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "version",
		Short:   "Print the version and what it was built from",
		Long:    "Prints the version of this program, the revision of its source if that is known,\nthe version of Go, and the stores in which this program takes locks.",
		Example: out.Examples("getsetlock version", "getsetlock version --json"),
		Args:    out.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if asJSON {
				info, _ := debug.ReadBuildInfo()
				return e.PrintJSON(versionOf(info, e.Stores))
			}
			fmt.Fprintln(e.Stdout, VersionLine(e))
			return nil
		},
	}
	out.JSONFlag(cmd, &asJSON)
	return cmd
}

// VersionLine returns what version prints: the program's version, source, Go,
// platform and stores. The stores tell the full command from the small one.
func VersionLine(e *out.Env) string {
	info, _ := debug.ReadBuildInfo()
	v := versionOf(info, e.Stores)
	names := []string{"Redis"}
	for _, scheme := range slices.Sorted(maps.Keys(e.Stores)) {
		names = append(names, e.Stores[scheme].Name)
	}
	return fmt.Sprintf("getsetlock %s%s, %s, %s, locks in %s", v.Version, v.source(), v.Go, v.Platform,
		strings.Join(names, ", "))
}

// versionOf reads what the Go tool put into the binary. A build without module
// information, such as Bazel's, has none.
func versionOf(info *debug.BuildInfo, stores map[string]backing.Store) Version {
	v := Version{
		Schema: "getsetlock.version/1", Version: "unknown",
		Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH,
		Stores: append(slices.Collect(maps.Keys(stores)), "redis"),
	}
	slices.Sort(v.Stores)
	if linked != "" {
		v.Version = linked
	}
	if info == nil {
		return v
	}
	if linked == "" && info.Main.Version != "" {
		v.Version = info.Main.Version
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			v.Revision = &s.Value
		case "vcs.time":
			v.Time = &s.Value
		case "vcs.modified":
			v.Modified = s.Value == "true"
		}
	}
	return v
}

func (v Version) source() string {
	if v.Revision == nil {
		return ""
	}
	short := *v.Revision
	if len(short) > 12 {
		short = short[:12]
	}
	if v.Modified {
		short += ", modified"
	}
	return " (" + short + ")"
}
