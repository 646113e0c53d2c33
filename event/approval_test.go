package event

import "testing"

var allStatuses = []ApprovalStatus{
	ApprovalPending, ApprovalApproved, ApprovalDenied, ApprovalExpired, ApprovalWithdrawn, ApprovalConsumed,
}

var allMoves = []ApprovalMove{MoveApprove, MoveDeny, MoveExpire, MoveWithdraw, MoveBegin}

func TestApprovalMovesAreTheseAndNoOthers(t *testing.T) {
	allowed := map[ApprovalStatus]map[ApprovalMove]ApprovalStatus{
		ApprovalPending: {
			MoveApprove:  ApprovalApproved,
			MoveDeny:     ApprovalDenied,
			MoveExpire:   ApprovalExpired,
			MoveWithdraw: ApprovalWithdrawn,
		},
		ApprovalApproved: {MoveBegin: ApprovalConsumed, MoveWithdraw: ApprovalWithdrawn},
	}
	for _, s := range append(allStatuses, "", "garbage") {
		for _, m := range append(allMoves, "", "garbage") {
			got, ok := s.Next(m)
			want, wantOK := allowed[s][m]
			if got != want || ok != wantOK {
				t.Errorf("%q by %q is %q, %v; want %q, %v", s, m, got, ok, want, wantOK)
			}
		}
	}
}

func TestNoApprovalComesBackToPending(t *testing.T) {
	for _, s := range allStatuses {
		for _, m := range allMoves {
			if to, ok := s.Next(m); ok && to == ApprovalPending {
				t.Errorf("%s by %s is pending again", s, m)
			}
		}
	}
}

func TestOnlyAnApprovedCallBegins(t *testing.T) {
	for _, s := range allStatuses {
		if _, ok := s.Next(MoveBegin); ok != (s == ApprovalApproved) {
			t.Errorf("a call with an approval that is %s may begin: %v", s, ok)
		}
	}
}

func TestEveryStatusButPendingIsDecided(t *testing.T) {
	for _, s := range allStatuses {
		if s.Decided() != (s != ApprovalPending) {
			t.Errorf("%s: decided is %v", s, s.Decided())
		}
	}
}
