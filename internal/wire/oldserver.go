package wire

import (
	"errors"
	"strings"

	"github.com/gomodule/redigo/redis"
)

// RefusesTime recognises a server before Redis 3.2, on which a script that has
// called TIME may not write. A script that calls TIME before it writes has
// written nothing then.
func RefusesTime(err error) bool {
	var said redis.Error
	return errors.As(err, &said) && strings.Contains(string(said), "non deterministic")
}
