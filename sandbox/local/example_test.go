package local_test

import (
	"context"
	"fmt"
	"log"

	"github.com/harness-go/harness/sandbox"
	"github.com/harness-go/harness/sandbox/local"
)

func Example() {
	ctx := context.Background()
	session, err := local.NewProvider(local.Options{}).CreateSession(ctx, sandbox.CreateOptions{})
	if err != nil {
		log.Fatal(err)
	}
	defer session.Destroy(ctx)

	if err := session.WriteTextFile(ctx, "notes/today.txt", "one\ntwo\n"); err != nil {
		log.Fatal(err)
	}
	res, err := session.Run(ctx, sandbox.CommandOptions{Command: "grep -c . notes/today.txt"})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Print(res.ExitCode, " ", res.Stdout)
	// Output: 0 2
}
