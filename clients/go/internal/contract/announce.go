package contract

// AnnounceEach is the time between the announcements of a worker. Tests shorten it.
var AnnounceEach = DefaultAnnounce
