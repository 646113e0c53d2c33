package event

// The kind of each payload.

func (RunQueuedPayload) EventType() Type              { return RunQueued }
func (RunStartedPayload) EventType() Type             { return RunStarted }
func (RunRecoveredPayload) EventType() Type           { return RunRecovered }
func (RunStepStartedPayload) EventType() Type         { return RunStepStarted }
func (RunStepCompletedPayload) EventType() Type       { return RunStepCompleted }
func (RunWaitingForApprovalPayload) EventType() Type  { return RunWaitingForApproval }
func (RunWaitingForUserPayload) EventType() Type      { return RunWaitingForUser }
func (RunResumedPayload) EventType() Type             { return RunResumed }
func (RunCostLimitReachedPayload) EventType() Type    { return RunCostLimitReached }
func (RunCompletedPayload) EventType() Type           { return RunCompleted }
func (RunFailedPayload) EventType() Type              { return RunFailed }
func (RunCancelledPayload) EventType() Type           { return RunCancelled }
func (LLMTurnRequestedPayload) EventType() Type       { return LLMTurnRequested }
func (LLMTurnCompletedPayload) EventType() Type       { return LLMTurnCompleted }
func (LLMAttemptDiscardedPayload) EventType() Type    { return LLMAttemptDiscarded }
func (LLMEmptyResponseRetryPayload) EventType() Type  { return LLMEmptyResponseRetry }
func (ProviderResolvedPayload) EventType() Type       { return ProviderResolved }
func (AssistantMessageDeltaPayload) EventType() Type  { return AssistantMessageDelta }
func (AssistantThinkingDeltaPayload) EventType() Type { return AssistantThinkingDelta }
func (AssistantMessagePayload) EventType() Type       { return AssistantMessage }
func (ReasoningCompletePayload) EventType() Type      { return ReasoningComplete }
func (UsageDeltaPayload) EventType() Type             { return UsageDelta }
func (ToolCallDeltaPayload) EventType() Type          { return ToolCallDelta }
func (ToolCallStartedPayload) EventType() Type        { return ToolCallStarted }
func (ToolOutputDeltaPayload) EventType() Type        { return ToolOutputDelta }
func (ToolCallCompletedPayload) EventType() Type      { return ToolCallCompleted }
func (ToolCallBlockedPayload) EventType() Type        { return ToolCallBlocked }
func (ToolApprovalRequiredPayload) EventType() Type   { return ToolApprovalRequired }
func (ToolApprovalGrantedPayload) EventType() Type    { return ToolApprovalGranted }
func (ToolApprovalDeniedPayload) EventType() Type     { return ToolApprovalDenied }
func (ToolActivatedPayload) EventType() Type          { return ToolActivated }
func (ConversationContinuedPayload) EventType() Type  { return ConversationContinued }
func (SteeringReceivedPayload) EventType() Type       { return SteeringReceived }
func (TodosUpdatedPayload) EventType() Type           { return TodosUpdated }
func (PromptWarningPayload) EventType() Type          { return PromptWarning }
func (JobCompletedPayload) EventType() Type           { return JobCompleted }
func (PromptResolvedPayload) EventType() Type         { return PromptResolved }

func (ContextWindowSnapshotPayload) EventType() Type   { return ContextWindowSnapshot }
func (ContextWindowWarningPayload) EventType() Type    { return ContextWindowWarning }
func (AutoCompactStartedPayload) EventType() Type      { return AutoCompactStarted }
func (AutoCompactCompletedPayload) EventType() Type    { return AutoCompactCompleted }
func (CompactHistoryCompletedPayload) EventType() Type { return CompactHistoryCompleted }
