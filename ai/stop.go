package ai

// StopConditionOptions are what a StopCondition sees: the steps that the current result has finished so far.
type StopConditionOptions struct{ Steps []StepResult }

// StopCondition reports whether to stop after the last of the steps. It is called while the turn runs and must not
// block.
type StopCondition func(StopConditionOptions) bool

// StepCountIs stops after n steps.
func StepCountIs(n int) StopCondition {
	return func(o StopConditionOptions) bool { return len(o.Steps) >= n }
}

// HasToolCall stops after a step that called the tool.
func HasToolCall(name string) StopCondition {
	return func(o StopConditionOptions) bool {
		if len(o.Steps) == 0 {
			return false
		}
		for _, c := range o.Steps[len(o.Steps)-1].ToolCalls() {
			if c.ToolName == name {
				return true
			}
		}
		return false
	}
}
