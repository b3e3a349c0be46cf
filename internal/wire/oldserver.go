// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"errors"
	"strings"

	"github.com/gomodule/redigo/redis"
)

// RefusesTime reports that the server is older than Redis 3.2: there a script
// that has called TIME may not write. A script that calls TIME before it writes
// has then written nothing.
func RefusesTime(err error) bool {
	var said redis.Error
	return errors.As(err, &said) && strings.Contains(string(said), "non deterministic")
}
