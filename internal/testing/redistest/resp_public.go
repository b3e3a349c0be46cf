package redistest

import "bufio"

// ReadCommand reads one command from a client, and gives its bytes too.
func ReadCommand(r *bufio.Reader) (Command, []byte, error) { return readCommand(r) }

// ReadValue reads one value from a server, as the bytes that it is.
func ReadValue(r *bufio.Reader) ([]byte, error) { return readValue(r) }
