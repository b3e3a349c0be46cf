package cli

import (
	"testing"

	"github.com/getsetlock/getsetlock/internal/child/childtest"
	"github.com/getsetlock/getsetlock/internal/redistest"
)

func TestMain(m *testing.M) {
	childtest.HeedSignals()
	redistest.Main(m)
}
