package audit

import (
	"testing"

	"github.com/getsetlock/getsetlock/internal/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }
