package runverb

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"
	"unicode"

	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/out"
	"github.com/getsetlock/getsetlock/legacy/dialect"
	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/modern"
)

// modernKeeper keeps run's lock as a token.
type modernKeeper struct {
	*clientKeeper
	backend *modern.Backend
}

// openModern makes the keeper of a command line. Nothing is sent.
func openModern(e *out.Env, f *runFlags, command []string) (keeper, error) {
	pool, address, err := f.server.Open(e)
	if err != nil {
		return nil, err
	}
	backend, err := modern.New(pool, modern.Config{
		Fence: true, Namespace: f.namespace, Replicas: f.replicas, Note: noteOf(e, command), Timeout: e.Timeout,
	})
	if err != nil {
		return nil, out.WrongUse("%w", out.InFlags(err))
	}
	common, err := newKeeper(e, f, backend, address, func(err error) error { return besideStamps(err, e.Clock.Now()) })
	if err != nil {
		return nil, err
	}
	return &modernKeeper{common, backend}, nil
}

func (k *modernKeeper) acquire(ctx context.Context, key string) (held, error) {
	lease, err := k.clientKeeper.acquire(ctx, key)
	if err != nil {
		return nil, err
	}
	return &tokenHeld{lease}, nil
}

// tokenHeld is a lease whose value carries a note behind the token.
type tokenHeld struct{ held }

// Token is the part that tells this lease from all others.
func (h *tokenHeld) Token() string {
	token, _, _ := strings.Cut(h.held.Token(), " ")
	return token
}

// holds asks the server. The token is compared without the note, which an inner run does not know.
func (k *modernKeeper) holds(ctx context.Context, key, token string) (bool, error) {
	info, err := k.backend.Inspect(ctx, key)
	return err == nil && info.Exists && !info.Reserved && info.Token == token, err
}

func (k *modernKeeper) warning() string { return "" }

// longestNote is what modern.Config.Note allows, in bytes.
const longestNote = 200

// note is what people find beside the token: where the command runs, and which it is.
func noteOf(e *out.Env, command []string) string {
	host, err := e.Hostname()
	if err != nil || host == "" {
		host = "unknown-host"
	}
	text := strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) || r == unicode.ReplacementChar {
			return '?'
		}
		return r
	}, host+" "+filepath.Base(command[0]))
	if len(text) > longestNote {
		text = strings.ToValidUTF8(text[:longestNote], "") // a rune cut in two goes as a whole
	}
	return text
}

// besideStamps explains a key that is held in a way that no token lock writes, in the words of the
// command line: an old client's timestamp is held for ever by this protocol's rules.
func besideStamps(err error, now time.Time) error {
	var e *lock.HeldError
	if !errors.As(err, &e) {
		return err
	}
	said := *e
	switch m := dialect.Identify(e.Owner, now, dialect.Hints{Prefer: dialect.Jedis().Name})[0]; {
	case m.Look == dialect.LookStamp && len(m.Dialects) > 1:
		said.Protocol = fmt.Sprintf("a timestamp, as %s and %d others write it", m.Dialects[0], len(m.Dialects)-1)
	case m.Look == dialect.LookStamp:
		said.Protocol = "a timestamp, as " + strings.Join(m.Dialects, "") + " writes it"
	case strings.HasPrefix(e.Protocol, "a timestamp"):
		said.Protocol = "a timestamp, of no plausible time"
	default:
		return err
	}
	said.Protocol += "; old clients are taken turns with by --dialect, and moved to token locks by getsetlock migrate"
	return &said
}
