// SPDX-License-Identifier: Apache-2.0

package redistest

import (
	"errors"
	"os"
)

func stop(*os.Process) error { return errors.New("processes can't be stopped on Windows") }

func cont(*os.Process) error { return errors.New("processes can't be continued on Windows") }
