// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"context"
	"strings"

	"github.com/gomodule/redigo/redis"
)

// Info reads a reply of INFO: its fields by their names.
func Info(reply any, err error) (map[string]string, error) {
	text, err := redis.String(reply, err)
	fields := map[string]string{}
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			fields[name] = value
		}
	}
	return fields, err
}

// Scan returns a slice of the keys, and the cursor of the next slice: "0" after
// the last one, as before the first. SCAN may return a key twice.
func (m *Mux) Scan(ctx context.Context, cursor string, args ...any) (keys []string, next string, err error) {
	reply, err := redis.Values(m.Do(ctx, "SCAN", append([]any{cursor}, args...)...))
	if err == nil {
		_, err = redis.Scan(reply, &next, &keys)
	}
	return keys, next, err
}
