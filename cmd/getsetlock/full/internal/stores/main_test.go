package stores

import (
	"os"
	"testing"

	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/cli"
	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/clitest"
	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/out"
)

// The test program also serves as the processes of a measurement.
func init() {
	if len(os.Args) == 2 && os.Args[1] == "bench-process" {
		env := out.System()
		env.Stores = All()
		os.Exit(cli.Main(os.Args[1:], env))
	}
}

func TestMain(m *testing.M) { clitest.Main(m, cli.Main) }
