package runverb

import (
	"context"
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

// warningWait bounds the looks at the servers for warnings. They are a
// courtesy, and the command waits for them.
const warningWait = time.Second

// warn prints what the user should know before the command starts.
func (r *runner) warn(ctx context.Context) {
	if r.flags.server.Quiet {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), warningWait)
	defer cancel()
	for _, w := range r.keeper.warnings(ctx) {
		r.env.Say(false, "warning: %s", w)
	}
	if !r.hasUser() && !r.flags.server.Quorum { // a server that is away would not answer
		r.warnOfSpellings(ctx)
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

// warnOfSpellings names keys that are r's key in the spelling of another
// serializer. They are different locks. It says nothing where the server cannot
// be asked, or refuses the user those keys.
func (r *runner) warnOfSpellings(ctx context.Context) {
	for _, s := range serializers {
		raw, err := (dialect.Dialect{KeyEncoding: s.encoding}).EncodeKey(r.key)
		if err != nil || s.encoding == r.keeper.encoding() {
			continue
		}
		if exists, err := r.keeper.stored(ctx, raw); err == nil && exists {
			r.env.Say(false, "warning: the key %s exists too, which is %q as %s writes it: a different lock, and clients that use it are not kept out (a dialect with \"key_encoding\": %q uses that key)",
				out.Escaped(raw), r.key, s.writer, s.encoding)
		}
	}
}
