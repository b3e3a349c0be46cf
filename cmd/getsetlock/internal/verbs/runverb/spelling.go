// SPDX-License-Identifier: Apache-2.0

package runverb

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"time"

	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/out"
	"github.com/getsetlock/getsetlock/internal/dialect"
)

// serializers are the encodings in which a key may be spelled, each with the
// program that writes it.
var serializers = []struct {
	encoding dialect.Encoding
	writer   string
}{
	{dialect.Plain, "a client without a serializer"},
	{dialect.JDK, "Spring's JDK serializer"},
	{dialect.JSON, "Spring's JSON serializer"},
}

// spellingWait bounds the question for other spellings of a key. It is a
// courtesy, and the lock waits for it.
const spellingWait = time.Second

// askForSpellings asks the server for keys that are r's key in the spelling of
// another serializer. They are different locks. It is called before the lock is
// taken, since a server may fall silent, and nobody holds a lock meanwhile. It
// finds nothing where the server cannot be asked, or refuses the user those
// keys.
func (r *runner) askForSpellings(ctx context.Context) {
	if r.flags.server.Quiet || r.keeper.stored == nil || r.hasUser() {
		return
	}
	ctx, rest := r.keeper.silence.during(ctx)
	defer rest()
	ctx, cancel := context.WithTimeout(ctx, spellingWait)
	defer cancel()
	for _, s := range serializers {
		raw, err := (dialect.Dialect{KeyEncoding: s.encoding}).EncodeKey(r.key)
		if err != nil || s.encoding == r.keeper.encoding {
			continue
		}
		if exists, err := r.keeper.stored(ctx, raw); err == nil && exists {
			r.spellings = append(r.spellings, fmt.Sprintf("the key %s exists too, which is %q as %s writes it: a different lock, and clients that use it are not kept out (a dialect with \"key_encoding\": %q uses that key)",
				out.Escaped(raw), r.key, s.writer, s.encoding))
		}
	}
}

// hasUser reports whether the address names a user. Its rights may end at the
// plain keys: then each look would be a refusal in the server's ACL LOG, which
// some watch for intruders.
func (r *runner) hasUser() bool {
	return slices.ContainsFunc(r.flags.server.Addresses(r.env), func(raw string) bool {
		address, err := url.Parse(raw)
		return err == nil && address.User.Username() != ""
	})
}

// warn prints what the user should know and was not yet told. It asks no
// server: the lock is held by now.
func (r *runner) warn() {
	said := r.spellings
	if r.keeper.warnings != nil {
		said = append(r.keeper.warnings(), said...)
	}
	for _, w := range said {
		if !slices.Contains(r.warned, w) {
			r.env.Say(r.flags.server.Quiet, "warning: %s", w)
			r.warned = append(r.warned, w)
		}
	}
}
