package engine_test

import (
	"testing"

	"github.com/harness-go/harness/internal/engine"
	"github.com/harness-go/harness/internal/engine/dispatchtest"
)

func TestLocalDispatcherKeepsTheContract(t *testing.T) {
	dispatchtest.Run(t, func(_ *testing.T, limit int) engine.Dispatcher { return engine.NewLocalDispatcher(limit, nil) })
}
