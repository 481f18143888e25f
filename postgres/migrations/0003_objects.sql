-- Objects that hold what is in no row of blob_data, because it is large. An object is known
-- here before it is made and until after it is removed.
CREATE TABLE blob_objects (
	name   text COLLATE "C" PRIMARY KEY, -- that no other object has ever had
	digest text COLLATE "C" NOT NULL,
	place  text COLLATE "C" NOT NULL,    -- address of the bucket, as whoever made it called it
	at     bigint NOT NULL,              -- when it was made, or needed again
	state  text COLLATE "C" NOT NULL     -- putting, there, going
);
CREATE INDEX blob_objects_digest ON blob_objects (digest);
CREATE INDEX blob_objects_passing ON blob_objects (at) WHERE state <> 'there';
