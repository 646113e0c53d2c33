// Command harness runs agents as durable, gated runs.
package main

import (
	"os"

	"github.com/harness-go/harness/internal/cli"
)

func main() { os.Exit(cli.Main(os.Args[1:])) }
