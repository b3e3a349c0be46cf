// SPDX-License-Identifier: Apache-2.0

package redistest

import (
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"
)

// Seat writes the record with which a server votes in its present run, as
// clients of package quorum do when they have watched it for long enough. do
// sends a command to the server. It must answer INFO.
func Seat(do func(name string, args ...any) (any, error), name string, names []string,
	greatest time.Duration) error {
	text, err := redis.String(do("INFO", "server"))
	if err != nil {
		return err
	}
	_, run, ok := strings.Cut(text, "run_id:")
	if !ok {
		return errors.New("redistest: the server says no run id")
	}
	run, _, _ = strings.Cut(run, "\r")
	names = slices.Clone(names)
	slices.Sort(names)
	_, err = do("HMSET", "gsl:quorum", "name", name, "members", strings.Join(names, " "), "ttl",
		greatest.Milliseconds(), "epoch", 0, "run", run)
	return err
}
