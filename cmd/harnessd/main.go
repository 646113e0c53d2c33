// Command harnessd serves durable agent runs over HTTP.
package main

import (
	"os"

	"github.com/harness-go/harness/internal/daemon"
)

func main() { os.Exit(daemon.Main(os.Args[1:], os.Stdout, os.Stderr)) }
