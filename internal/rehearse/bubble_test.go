package rehearse

import (
	"encoding/json"
	"os"
	"testing"
)

// childVariable makes the test binary stand in for the command: what Embedded starts is a program
// that calls Child.
const childVariable = "GETSETLOCK_TEST_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(childVariable) != "" {
		Child(os.Stdin, os.Stdout)
	}
	os.Setenv(childVariable, "1")
	os.Exit(m.Run())
}

func TestTheChildAnswersAndItsParentListens(t *testing.T) {
	p := DefaultPlan()
	p.Protocol = "watch"
	p.Acquisitions = 20000
	var last Progress
	var reports int
	res, err := Embedded(t.Context(), p, []string{os.Args[0]}, func(p Progress) { last = p; reports++ })
	if err != nil {
		t.Fatal(err)
	}
	b, _ := json.Marshal(res)
	t.Log(string(b), last, reports)
	if !res.OK {
		t.Errorf("%+v", res)
	}
}
