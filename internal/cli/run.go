package cli

// Exit codes of run; the others are the command's own.
const (
	codeRunLost   = 123
	codeRunHeld   = 124
	codeRunFailed = 125
)
