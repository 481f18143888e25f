package storetest

import (
	"testing"

	"github.com/tipstaff/tipstaff/store"
)

// Rules runs the suite of rules that every store keeps, whatever database it stands on.
func Rules(t *testing.T, place Place) {
	for _, rule := range []struct {
		name string
		test func(*testing.T, Place)
	}{
		{"ManyRunsAtOnce", testManyRunsAtOnce},
		{"Acquire", testAcquire},
		{"SecondOwnerFencesTheFirst", testSecondOwnerFencesTheFirst},
		{"NothingFollowsTheEnd", testNothingFollowsTheEnd},
		{"AppendRefuses", testAppendRefuses},
		{"Park", testPark},
		{"ParkAfterContinue", testParkAfterContinue},
		{"DecisionRacesWithPark", testDecisionRacesWithPark},
		{"ForeignInterruptionReleases", testForeignInterruptionReleases},
		{"HeartbeatRenewsOwnLeases", testHeartbeatRenewsOwnLeases},
		{"WriteReturnsTheErrorOfItsFunction", testWriteReturnsTheErrorOfItsFunction},
		{"AFailureIsOfWhatIsStored", testAFailureIsOfWhatIsStored},
		{"TheEndOfAChildMakesItsParentDue", testTheEndOfAChildMakesItsParentDue},
		{"AClaimIsUndoneByItsHolderAlone", testAClaimIsUndoneByItsHolderAlone},
		{"OneOfFiftyDecisionsIsStored", testOneOfFiftyDecisionsIsStored},
		{"LateClosingsAreLeftOut", testLateClosingsAreLeftOut},
		{"GateRowsAreWhatTheRecordsSay", testGateRowsAreWhatTheRecordsSay},
		{"GatesBeforeAcceptance", testGatesBeforeAcceptance},
		{"SessionIsAChain", testSessionIsAChain},
		{"ThreadHasOneUnfinishedRun", testThreadHasOneUnfinishedRun},
		{"RunTakesTheThreadOver", testRunTakesTheThreadOver},
		{"BesideRefusesARun", testBesideRefusesARun},
		{"RequestMakesOneEnvelope", testRequestMakesOneEnvelope},
		{"ThreadRace", testThreadRace},
		{"CreateWithoutADraft", testCreateWithoutADraft},
		{"DriveOfARunThatCannotComplete", testDriveOfARunThatCannotComplete},
		{"ExportOfAPlainEnd", testExportOfAPlainEnd},
		{"TextOfAPlainFailure", testTextOfAPlainFailure},
		{"Collect", testCollect},
		{"CollectRacesWithPut", testCollectRacesWithPut},
		{"BlobNames", testBlobNames},
		{"LoadGivesThePresentSegment", testLoadGivesThePresentSegment},
		{"LoadGivesACancelOfAnEarlierSegment", testLoadGivesACancelOfAnEarlierSegment},
		{"EnvelopesKeepTheIDTheyAreGiven", testEnvelopesKeepTheIDTheyAreGiven},
		{"LoadGivesRecordsAsTheyWereDrafted", testLoadGivesRecordsAsTheyWereDrafted},
		{"ForksInherit", testForksInherit},
		{"PayloadsAreKeptAsBlobs", testPayloadsAreKeptAsBlobs},
		{"RowTakesTheFold", testRowTakesTheFold},
		{"RunsArePagedNewestFirst", testRunsArePagedNewestFirst},
		{"WatchSeesWhatTheOwnerDidNotWrite", testWatchSeesWhatTheOwnerDidNotWrite},
		{"WatchersCannotHoldUpTheWriter", testWatchersCannotHoldUpTheWriter},
		{"FollowIsCoalesced", testFollowIsCoalesced},
		{"InboxIsPruned", testInboxIsPruned},
		{"IdsOfTasksAreMultiplesOfTen", testIdsOfTasksAreMultiplesOfTen},
		{"OfTwoSpawnsOneMakesARun", testOfTwoSpawnsOneMakesARun},
		{"RecordsMoveTheirTask", testRecordsMoveTheirTask},
		{"ARunEndsWithItsTasksEnded", testARunEndsWithItsTasksEnded},
		{"TheTaskOfAStepIsMadeOnce", testTheTaskOfAStepIsMadeOnce},
		{"AForkWorksOnCopies", testAForkWorksOnCopies},
		{"ParallelChangesAllSurvive", testParallelChangesAllSurvive},
		{"OneTakesTheLeaseOfASession", testOneTakesTheLeaseOfASession},
		{"SessionsAreListedNewestFirst", testSessionsAreListedNewestFirst},
		{"LeavesAndEndsAreRemembered", testLeavesAndEndsAreRemembered},
		{"EndsWithoutAnOwnerAreRemembered", testEndsWithoutAnOwnerAreRemembered},
		{"ARunLearnsFromWhatItWasGiven", testARunLearnsFromWhatItWasGiven},
		{"ChildrensEventsAreCited", testChildrensEventsAreCited},
		{"Forget", testForget},
		{"TwoStoresShareTheMemory", testTwoStoresShareTheMemory},
		{"RecollectMissesNothing", testRecollectMissesNothing},
		{"EventsAreThereAtOnce", testEventsAreThereAtOnce},
	} {
		t.Run(rule.name, func(t *testing.T) { rule.test(t, place) })
	}
}

// Place makes an empty place for a store, and returns what opens the store in it: again and
// again, with what it has kept, and several times at once. It may sign for the user.
type Place func(testing.TB) func(*store.Options) (Opened, error)

// Opened is an open store.
type Opened struct {
	*store.Store
	DB    store.DB
	Close func() error
}

// Bench is a store in a place of its own that can be closed and opened again.
type Bench struct {
	testing.TB
	Opened
	open func(*store.Options) (Opened, error)
}

// Bench opens a store in a new place, until the test ends.
func (p Place) Bench(t testing.TB, o *store.Options) *Bench {
	t.Helper()
	b := &Bench{TB: t, open: p(t)}
	return b.Second(o)
}

// Second opens the same store once more, as another process does.
func (b *Bench) Second(o *store.Options) *Bench {
	b.Helper()
	opened, err := b.open(o)
	if err != nil {
		b.Fatal(err)
	}
	second := &Bench{TB: b.TB, Opened: opened, open: b.open}
	b.Cleanup(second.Shut)
	return second
}

// Shut closes the store, once.
func (b *Bench) Shut() {
	b.Helper()
	if b.Close == nil {
		return
	}
	if err := b.Close(); err != nil {
		b.Error(err)
	}
	b.Close = nil
}
