package harness

import (
	"errors"
	"fmt"
)

// SessionState is the state of a session's handle.
type SessionState string

// The session states. All but active are final.
const (
	SessionStateActive    SessionState = "active"
	SessionStateDetached  SessionState = "detached"
	SessionStateStopped   SessionState = "stopped"
	SessionStateDestroyed SessionState = "destroyed"
)

// TurnState is the state of a session's turn.
type TurnState string

// The turn states. In all but idle there is an unfinished turn.
const (
	TurnStateIdle             TurnState = "idle"
	TurnStateRunning          TurnState = "running"
	TurnStateAwaitingApproval TurnState = "awaiting-approval"
	TurnStateAwaitingResult   TurnState = "awaiting-tool-result"
	TurnStateSuspended        TurnState = "suspended"
)

// What is wrong with a call that the state does not allow. The errors of a session wrap one of them.
var (
	ErrSessionEnded     = errors.New("harness: the session has ended")
	ErrTurnInProgress   = errors.New("harness: a turn is in progress")
	ErrUnfinishedTurn   = errors.New("harness: the turn is unfinished")
	ErrNoUnfinishedTurn = errors.New("harness: there is no unfinished turn")
	ErrNoRunningTurn    = errors.New("harness: there is no running turn")
)

// sessionMove is what ends a session.
type sessionMove string

const (
	moveDetach  sessionMove = "detach"
	moveStop    sessionMove = "stop"
	moveDestroy sessionMove = "destroy"
)

// sessionMoves is the whole state machine of a session: what is not listed is refused.
var sessionMoves = map[SessionState]map[sessionMove]SessionState{
	SessionStateActive: {
		moveDetach:  SessionStateDetached,
		moveStop:    SessionStateStopped,
		moveDestroy: SessionStateDestroyed,
	},
}

// turnMove is what happens to a turn.
type turnMove string

const (
	moveBegin         turnMove = "begin" // a fresh turn, or a continued one
	moveFinish        turnMove = "finish"
	movePauseApproval turnMove = "pause-approval"
	movePauseResult   turnMove = "pause-result"
	moveSuspend       turnMove = "suspend"
)

// turnMoves is the whole state machine of a turn. A turn that failed or was aborted is finished.
var turnMoves = map[TurnState]map[turnMove]TurnState{
	TurnStateIdle:             {moveBegin: TurnStateRunning},
	TurnStateAwaitingApproval: {moveBegin: TurnStateRunning},
	TurnStateAwaitingResult:   {moveBegin: TurnStateRunning},
	TurnStateSuspended:        {moveBegin: TurnStateRunning},
	TurnStateRunning: {
		moveFinish:        TurnStateIdle,
		movePauseApproval: TurnStateAwaitingApproval,
		movePauseResult:   TurnStateAwaitingResult,
		moveSuspend:       TurnStateSuspended,
	},
}

// operation is a call on a session.
type operation string

const (
	opPrompt   operation = "prompt"
	opContinue operation = "continue"
	opSuspend  operation = "suspend"
	opDetach   operation = "detach"
	opStop     operation = "stop"
	opSteer    operation = "steer"
	opCompact  operation = "compact"
	opHistory  operation = "history"
)

// refusal is why a call is not allowed: an error to branch on, and the text after "Harness session <id> ".
type refusal struct {
	kind error
	text string
}

var (
	refuseEnded      = refusal{ErrSessionEnded, "has ended and cannot be reused."}
	refuseRunning    = refusal{ErrTurnInProgress, "already has a turn in progress."}
	refuseUnfinished = refusal{ErrUnfinishedTurn, "has an unfinished turn and must be continued before accepting a new prompt."}
	refuseContinue   = refusal{ErrNoUnfinishedTurn, "has no unfinished turn to continue."}
	refuseSuspend    = refusal{ErrNoUnfinishedTurn, "has no unfinished turn to suspend."}
	refuseSteer      = refusal{ErrNoRunningTurn, "has no running turn to steer."}
)

// refusals lists what each call is refused for in each turn state of an active session. What is not listed is allowed.
var refusals = map[operation]map[TurnState]refusal{
	opPrompt: {
		TurnStateRunning:          refuseRunning,
		TurnStateAwaitingApproval: refuseUnfinished,
		TurnStateAwaitingResult:   refuseUnfinished,
		TurnStateSuspended:        refuseUnfinished,
	},
	opContinue: {
		TurnStateIdle:    refuseContinue,
		TurnStateRunning: refuseRunning,
	},
	opSuspend: {TurnStateIdle: refuseSuspend},
	opSteer: {
		TurnStateIdle:             refuseSteer,
		TurnStateAwaitingApproval: refuseSteer,
		TurnStateAwaitingResult:   refuseSteer,
		TurnStateSuspended:        refuseSteer,
	},
}

// endedRefusals lists what calls are refused for after the session's end. Calls that are not listed have ended too.
var endedRefusals = map[operation]refusal{
	opSuspend: {ErrSessionEnded, "is not active and cannot be suspended."},
	opDetach:  {ErrSessionEnded, "is not active and cannot be detached."},
	opStop:    {ErrSessionEnded, "is not active and cannot be stopped."},
}

// allow reports why a call is refused, or nil.
func allow(sessionID string, s SessionState, t TurnState, op operation) error {
	r, refused := refusals[op][t]
	if s != SessionStateActive {
		if r, refused = endedRefusals[op]; !refused {
			r, refused = refuseEnded, true
		}
	}
	if !refused {
		return nil
	}
	return r.error(sessionID)
}

func (r refusal) error(sessionID string) error {
	return &stateError{message: fmt.Sprintf("Harness session %s %s", sessionID, r.text), kind: r.kind}
}

type stateError struct {
	message string
	kind    error
}

func (e *stateError) Error() string { return e.message }
func (e *stateError) Unwrap() error { return e.kind }

// stateOf is the turn state that a session begins in when it continues from a state.
func stateOf(c *ContinueTurnState) TurnState {
	switch {
	case c == nil:
		return TurnStateIdle
	case len(c.PendingToolApprovals) > 0:
		return TurnStateAwaitingApproval
	case len(c.PendingToolResults) > 0:
		return TurnStateAwaitingResult
	}
	return TurnStateSuspended
}
