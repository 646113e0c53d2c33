package builtin_test

import (
	"fmt"

	"github.com/harness-go/harness/tool"
	"github.com/harness-go/harness/tool/builtin"
)

// A harness puts the core tools into its catalogue; a user's tool of the same name takes the place of a built-in one.
func ExampleCore() {
	catalog, err := tool.NewCatalog(builtin.Core()...)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, t := range catalog.Core()[:4] {
		d := t.Definition()
		fmt.Println(d.Name, d.Kind)
	}
	// Output:
	// read readonly
	// write edit
	// edit edit
	// apply_patch edit
}
