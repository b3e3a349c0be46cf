package cli

import (
	"bytes"
	"errors"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/internal/redistest"
	"github.com/getsetlock/getsetlock/lock"
)

// stage is a world in which command lines are run as users run them, inside the test's process.
type stage struct {
	t           *testing.T
	world       *redistest.World // nil: no server
	clock       lock.Clock
	timeout     time.Duration // what Env has
	vars        map[string]string
	stdin       string
	stdout      io.Writer // nil: it is kept
	interactive bool
	replaced    [][]string // what Replace was called with
	environ     []string   // … with which environment, the last time
	stays       bool       // Replace cannot be done, as on Windows and by PID 1

	mu          sync.Mutex
	subscribers []subscriber
}

type subscriber struct {
	c     chan<- os.Signal
	which []os.Signal
}

// newStage has the embedded server as its default one.
func newStage(t *testing.T) *stage {
	w := redistest.New(t)
	return &stage{t: t, world: w, clock: w.Clock(redistest.Skew{}), vars: map[string]string{"GETSETLOCK_REDIS": w.URL()}}
}

// screen is what a command line printed.
type screen struct {
	code        int
	out, errors string
}

// run runs a command line to its end.
func (s *stage) run(args ...string) screen {
	s.t.Helper()
	return (<-s.start(args...).done)
}

// started is a command line that is being run.
type started struct {
	out, errors *watched
	done        chan screen
}

func (s *stage) start(args ...string) *started {
	return s.startReading(strings.NewReader(s.stdin), args...)
}

func (s *stage) startReading(in io.Reader, args ...string) *started {
	st := &started{out: newWatched(), errors: newWatched(), done: make(chan screen, 1)}
	stdout := s.stdout
	if stdout == nil {
		stdout = st.out
	}
	env := Env{
		Stdin: in, Stdout: stdout, Stderr: st.errors,
		Getenv: func(name string) string { return s.vars[name] },
		Environ: func() []string {
			all := []string{"PATH=" + os.Getenv("PATH")}
			for name, value := range s.vars {
				all = append(all, name+"="+value)
			}
			slices.Sort(all)
			return all
		},
		Clock:       s.clock,
		Timeout:     s.timeout,
		Notify:      s.notify,
		Interactive: func() bool { return s.interactive },
		Hostname:    func() (string, error) { return "host7", nil },
		Replace: func(args, env []string) error {
			s.replaced, s.environ = append(s.replaced, args), env
			if s.stays {
				return errors.ErrUnsupported
			}
			return io.EOF // stands for "it did return"
		},
	}
	go func() {
		code := Main(args, env)
		st.done <- screen{code, st.out.String(), st.errors.String()}
	}()
	return st
}

func (s *stage) notify(c chan<- os.Signal, which ...os.Signal) func() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.subscribers = append(s.subscribers, subscriber{c, which})
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.subscribers = slices.DeleteFunc(s.subscribers, func(o subscriber) bool { return o.c == c })
	}
}

// signal is what os/signal does with a signal that we get.
func (s *stage) signal(sig os.Signal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range s.subscribers {
		if slices.Contains(o.which, sig) {
			select {
			case o.c <- sig:
			default:
			}
		}
	}
}

// watched is a buffer that can be waited on.
type watched struct {
	mu   sync.Mutex
	more *sync.Cond
	buf  bytes.Buffer
}

func newWatched() *watched {
	w := &watched{}
	w.more = sync.NewCond(&w.mu)
	return w
}

func (w *watched) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	defer w.more.Broadcast()
	return w.buf.Write(p)
}

func (w *watched) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.buf.String()
}

// await waits until text was written; the test's own deadline bounds it.
func (w *watched) await(text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for !strings.Contains(w.buf.String(), text) {
		w.more.Wait()
	}
}

func (s *stage) want(got screen, code int, out, says string) {
	s.t.Helper()
	if got.code != code || got.out != out || !strings.Contains(got.errors, says) || says == "" && got.errors != "" {
		s.t.Errorf("code %d (want %d)\nstdout %q (want %q)\nstderr %q (want %q in it)", got.code, code, got.out, out, got.errors, says)
	}
	if strings.Contains(got.errors, "s3cret") || strings.Contains(got.out, "s3cret") {
		s.t.Errorf("a password was printed:\n%s%s", got.out, got.errors)
	}
}

func TestWrongUseIsOneLineAndExitCode2(t *testing.T) {
	s := newStage(t)
	for line, says := range map[string]string{
		"foo":                         `getsetlock: there is no command "foo"`,
		"--foo":                       "getsetlock: unknown flag: --foo; see getsetlock --help",
		"version x":                   "takes no arguments",
		"completion":                  "bash, zsh or fish",
		"completion tcsh":             `no completion for "tcsh"`,
		"ls a b":                      "one PATTERN at most",
		"ls --dialect foo":            `no dialect is called "foo"`,
		"ls --dialect-file /no/f":     "--dialect-file: open /no/f",
		"ls --redis http://x":         "must begin with redis://",
		"ls --cacert /no/f":           "for addresses that begin with rediss://",
		"unlock":                      "give one KEY",
		"unlock k":                    "no terminal",
		"unlock a b --value x":        "give one KEY",
		"redis://:s3cret@h ls":        "there is no command",
		"ls -redis=redis://:s3cret@h": "unknown shorthand flag",
		"ls --redis redis://s3cret@h": "a user and no password",
	} {
		got := s.run(strings.Fields(line)...)
		s.want(got, 2, "", says)
		if strings.Count(got.errors, "\n") != 1 {
			t.Errorf("%s: not one line: %q", line, got.errors)
		}
	}
}

func TestOfRunWrongUseIs125(t *testing.T) {
	s := newStage(t)
	for line, says := range map[string]string{
		"run":                           "write -- between",
		"run k true":                    "write -- between",
		"run -- true":                   "one KEY before --, not 0",
		"run a b -- true":               "one KEY before --, not 2",
		"run k --":                      "no command behind --",
		"run --foo k -- true":           "unknown flag: --foo; see getsetlock run --help",
		"run --wait x k -- true":        "or forever",
		"run --wait -1s k -- true":      "must not be negative",
		"run --ttl 5 k -- true":         "missing unit",
		"run --ttl 0 k -- true":         `"0" for "--ttl" flag: it must be more than zero; leave the flag out for the default`,
		"run --lease -1s k -- true":     `"-1s" for "--lease" flag: it must be more than zero`,
		"run --keep -1s k -- true":      "--keep is -1s",
		"run --grace -1s k -- true":     "--grace -1s is negative",
		"run --grace 20s k -- true":     "--grace: 20s does not fit a lease of 30s",
		"run --protocol fast k -- true": `--protocol "fast" is not known; there are modern, legacy, dual, auto`,
		"run --protocol auto k -- true": `name it by --namespace`,
		"run --protocol modern --dialect jedis k -- true":     "--dialect is for --protocol legacy",
		"run --protocol modern --dialect-file /x k -- true":   "--dialect-file is for --protocol legacy",
		"run --protocol modern --mode verbatim k -- true":     "--mode is for --protocol legacy",
		"run --protocol modern --lease 1s k -- true":          "--lease is for --protocol legacy",
		"run --protocol modern --spread 1s k -- true":         "--spread is for --protocol legacy",
		"run --protocol modern --gap 1s k -- true":            "--gap is for --protocol legacy",
		"run --protocol modern --behind 1s k -- true":         "--behind is for --protocol legacy",
		"run --mode verbatim --behind 1s k -- true":           "--behind is for --mode hardened",
		"run --behind -1s k -- true":                          `"-1s" for "--behind" flag: it can't be negative`,
		"run --greatest 30s k -- true":                        "--greatest 30s is less than --lease 1m0s",
		"run --protocol legacy --replicas 1 k -- true":        "--replicas is for --protocol modern: the old clients' lock",
		"run --namespace n --dialect jedis k -- true":         "--namespace is for --protocol modern, and --dialect asks for legacy",
		"run --namespace a:b k -- true":                       `--namespace "a:b": only printable`,
		"run --replicas -1 k -- true":                         "--replicas is -1; it must not be negative",
		"run --ttl 5ms k -- true":                             "--ttl 5ms is less than 10ms",
		"run --ttl 100ms --replicas 1 k -- true":              "--ttl 100ms less trust margin 10ms must be longer than the wait for replicas 100ms",
		"run --mode soft k -- true":                           `--mode "soft" is not known`,
		"run --protocol legacy --ttl 59s k -- true":           "--ttl 59s exceeds 58.001s, which --lease 1m0s of Jedis allows (--lease + c 1ms - --spread 1s (assumed) - --gap 1s (assumed))",
		"run --gap 2s --ttl 59s k -- true":                    "- --spread 1s (assumed) - --gap 2s)",
		"run --mode hardened --keep 1h k -- true":             "say so by --lease",
		"run --dialect page k -- true":                        "--lease",
		"run --mode verbatim --gap 1s k -- true":              "--gap is for --mode hardened",
		"run --mode verbatim --ttl 1s --lease 2s k -- true":   "the same thing",
		"run --mode verbatim --lease 2s --keep 3s k -- true":  "--keep 3s exceeds the lease (2s)",
		"run --mode verbatim --lease 2s --grace 2s k -- true": "leaves the command no time",
		"run --dialect jedis --dialect-file /x k -- true":     "give one",
		"run --redis redis://:s3cret@h:x k -- true":           "not a port",
	} {
		got := s.run(strings.Fields(line)...)
		s.want(got, 125, "", says)
		if !strings.HasPrefix(got.errors, "getsetlock run: ") || strings.Count(got.errors, "\n") != 1 {
			t.Errorf("%s: %q", line, got.errors)
		}
	}
	if keys := s.world.Mini.Keys(); len(keys) != 0 {
		t.Errorf("left behind: %v", keys)
	}
}

func TestEveryVerbHasExamplesAndALineOfHelp(t *testing.T) {
	for _, c := range newRoot(&Env{}).Commands() {
		if c.Hidden || c.Name() == "help" {
			continue
		}
		if c.Short == "" || c.Long == "" || !strings.Contains(c.Example, "getsetlock "+c.Name()) {
			t.Errorf("%s: short %q, long of %d bytes, examples %q", c.Name(), c.Short, len(c.Long), c.Example)
		}
		for _, line := range strings.Split(c.Long, "\n") {
			if len([]rune(line)) > 100 {
				t.Errorf("%s: a line of help is wider than a terminal: %q", c.Name(), line)
			}
		}
	}
}

func TestHelpGoesToStdoutAndNamesWhatThereIs(t *testing.T) {
	s := newStage(t)
	for _, line := range []string{"", "--help", "help"} {
		got := s.run(strings.Fields(line)...)
		if got.code != 0 || got.errors != "" {
			t.Errorf("%q: %+v", line, got)
		}
		for _, verb := range []string{"rehearse", "run", "ls", "unlock", "GETSETLOCK_REDIS"} {
			if !strings.Contains(got.out, verb) {
				t.Errorf("%q does not mention %s", line, verb)
			}
		}
	}
	got := s.run("run", "--help")
	for _, word := range []string{"123", "124", "125", "126", "127", "--keep", "spread", "SIGKILL", "verbatim", "GETSETLOCK_TOKEN", "GETSETLOCK_FENCE", "GETSETLOCK_REDIS", "GETSETLOCK_CACERT", "PID 1", "--replicas", "--namespace", "dual", "auto"} {
		if !strings.Contains(got.out, word) {
			t.Errorf("run --help does not mention %s", word)
		}
	}
}

func TestCompletionKnowsDialectsAndShells(t *testing.T) {
	s := newStage(t)
	for _, shell := range []string{"bash", "zsh", "fish"} {
		if got := s.run("completion", shell); got.code != 0 || !strings.Contains(got.out, "getsetlock") || got.errors != "" {
			t.Errorf("%s: code %d, %d bytes, %q", shell, got.code, len(got.out), got.errors)
		}
	}
	for line, want := range map[string]string{
		"run --dialect redis-p": "RedisPy",
		"ls --dialect jed":      "JedisUUID",
		"run --mode ":           "verbatim",
		"run --protocol ":       "modern",
		"run --wait ":           "forever",
		"completion ":           "zsh",
	} {
		fields := strings.Fields(line)
		if strings.HasSuffix(line, " ") {
			fields = append(fields, "")
		}
		got := s.run(append([]string{"__complete"}, fields...)...)
		if !strings.Contains(got.out, want) {
			t.Errorf("%q: %q", line, got.out)
		}
	}
	s.world.Mini.Set("secret-key", "1")
	if got := s.run("__complete", "ls", ""); strings.Contains(got.out, "secret-key") {
		t.Error("keys of the server were completed")
	}
}

func decimal(n int64) string { return strconv.FormatInt(n, 10) }
