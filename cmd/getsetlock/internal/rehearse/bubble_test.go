package rehearse

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/internal/testing/redistest"
)

// actVariable makes the test binary act as the command. Its value says how the
// process that Embedded starts behaves.
const actVariable = "GETSETLOCK_TEST_ACT"

func TestMain(m *testing.M) {
	switch os.Getenv(actVariable) {
	case "":
		redistest.Main(m)
	case "child":
		Child(os.Stdin, os.Stdout)
	case "garbled":
		fmt.Println("PASS")
	case "stuck":
		for {
			fmt.Println(`{"progress":{"done":1,"orders":10,"virtual":5}}`)
		}
	case "dying":
		fmt.Println(`{"progress":{"done":1,"orders":10}}`)
		fmt.Fprintln(os.Stderr, "panic: everything is on fire")
		os.Exit(2)
	}
}

// acted runs Embedded with a child that behaves in that way.
func acted(t *testing.T, act string, ctx context.Context, p Plan, progress func(Progress)) (*Result, error) {
	t.Helper()
	t.Setenv(actVariable, act)
	return Embedded(ctx, p, []string{os.Args[0]}, progress)
}

func quietly(Progress) {}

func watchPlan(acquisitions int) Plan {
	p := DefaultPlan()
	p.Protocol, p.Acquisitions = "watch", acquisitions
	return p
}

func TestChildReturnsTheResultOfTheBubble(t *testing.T) {
	p := watchPlan(400)
	got, err := acted(t, "child", t.Context(), p, quietly)
	if err != nil {
		t.Fatal(err)
	}
	if got.WallMS <= 0 {
		t.Errorf("it took %v ms of real time", got.WallMS)
	}
	got.WallMS = 0
	want := rehearse(t, func(q *Plan) { *q = p })
	if g, w := asJSON(t, got), asJSON(t, want); g != w {
		t.Errorf("the child says\n%s, in process it is\n%s", g, w)
	}
}

func TestChildReportsProgress(t *testing.T) {
	var all []Progress
	p := watchPlan(3000)
	if _, err := acted(t, "child", t.Context(), p, func(at Progress) { all = append(all, at) }); err != nil {
		t.Fatal(err)
	}
	if len(all) == 0 {
		t.Fatal("no progress was reported")
	}
	for i, at := range all {
		if at.Orders != p.Acquisitions || at.Done > at.Orders || i > 0 && at.Done < all[i-1].Done {
			t.Errorf("report %d is %+v", i, at)
		}
	}
}

// This rehearsal would run for many minutes. Only the end of its context can
// end it.
func TestEndOfContextEndsTheChild(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("a user pressed ^C")
	_, err := acted(t, "child", ctx, watchPlan(mostAcquisitions), func(Progress) { cancel(why) })
	if !errors.Is(err, why) {
		t.Errorf("%v", err)
	}
}

func TestChildEndsWithItsParent(t *testing.T) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), actVariable+"=child")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Process.Kill()
	fmt.Fprintln(in, asJSON(t, watchPlan(mostAcquisitions)))
	buf := make([]byte, 1)
	if _, err := io.ReadFull(out, buf); err != nil {
		t.Fatalf("it never said anything: %v", err)
	}
	in.Close() // as the kernel does for a dead parent
	io.Copy(io.Discard, out)
	if err := cmd.Wait(); err == nil {
		t.Error("it ended as if nothing had happened")
	}
}

func TestErrorSaysWhyTheChildFailed(t *testing.T) {
	if _, err := acted(t, "garbled", t.Context(), watchPlan(1), quietly); err == nil ||
		!strings.Contains(err.Error(), "ended early") {
		t.Errorf("garbled: %v", err)
	}
	_, err := acted(t, "dying", t.Context(), watchPlan(1), quietly)
	if err == nil || !strings.Contains(err.Error(), "everything is on fire") {
		t.Errorf("dying: %v", err)
	}
	p := watchPlan(1)
	p.Protocol = "chance"
	if _, err := acted(t, "child", t.Context(), p, quietly); err == nil ||
		!strings.Contains(err.Error(), "--protocol chance") {
		t.Errorf("unknown protocol: %v", err)
	}
	if _, err := Embedded(t.Context(), watchPlan(1), []string{"/nowhere/at/all"}, quietly); err == nil ||
		!strings.Contains(err.Error(), "/nowhere/at/all") {
		t.Errorf("no such program: %v", err)
	}
}

func TestWatchdogEndsAStuckRehearsal(t *testing.T) {
	defer func(d time.Duration) { stuckAfter = d }(stuckAfter)
	stuckAfter = 50 * time.Millisecond
	if _, err := acted(t, "stuck", t.Context(), watchPlan(10), quietly); !errors.Is(err, errStuck) {
		t.Errorf("%v", err)
	}
}

// A bubble refuses some runtime settings; they must not reach the child.
func TestOddRuntimeSettingsDoNotReachTheChild(t *testing.T) {
	t.Setenv("GODEBUG", "asynctimerchan=1")
	if _, err := acted(t, "child", t.Context(), watchPlan(10), quietly); err != nil {
		t.Error(err)
	}
}

func TestWordsKeepOnlyTheBeginning(t *testing.T) {
	var w words
	for range 1000 {
		fmt.Fprintln(&w, time.Now())
	}
	if n := len(w.String()); n > mostWords {
		t.Errorf("%d bytes kept", n)
	}
}
