package sqlguard

import "strings"

// The lists below hold what is built into a dialect and, called with any
// arguments, changes nothing: no table, sequence, lock, setting or file, on this
// server or another. Left out are also functions that run a statement they are
// given, that read files of the server, or that only wait.

func wordSet(words string) map[string]bool {
	set := map[string]bool{}
	for word := range strings.FieldsSeq(words) {
		set[word] = true
	}
	return set
}

const postgresFunctions = `
abs acos acosd acosh age any_value area array_agg array_append array_cat array_dims array_fill array_length array_lower array_ndims array_position
array_positions array_prepend array_remove array_replace array_reverse array_sample array_shuffle array_sort array_to_json array_to_string
array_to_tsvector array_upper ascii asin asind asinh atan atan2 atan2d atand atanh avg bit_and bit_count bit_length bit_or bit_xor bool bool_and bool_or
bound_box box broadcast btrim cardinality casefold cbrt ceil ceiling center char_length character_length chr circle clock_timestamp col_description
concat concat_ws convert convert_from convert_to corr cos cosd cosh cot cotd count covar_pop covar_samp crc32 crc32c cume_dist current_catalog
current_database current_query current_role current_schema current_schemas current_setting current_user currval date date_add date_bin date_part
date_subtract date_trunc daterange datemultirange decode degrees dense_rank diagonal diameter div encode enum_first enum_last enum_range erf erfc every exp
extract factorial family first_value float4 float8 floor format format_type gamma gcd gen_random_uuid generate_series generate_subscripts get_bit get_byte
get_current_ts_config has_any_column_privilege has_column_privilege has_database_privilege has_foreign_data_wrapper_privilege has_function_privilege
has_language_privilege has_parameter_privilege has_schema_privilege has_sequence_privilege has_server_privilege has_table_privilege
has_tablespace_privilege has_type_privilege height hashtext host hostmask inet_client_addr inet_client_port inet_merge inet_same_family inet_server_addr
inet_server_port initcap int2 int4 int8 int4range int4multirange int8range int8multirange is_normalized isclosed isempty isfinite isopen
json_agg json_agg_strict json_array_elements json_array_elements_text json_array_length json_build_array json_build_object json_each json_each_text
json_extract_path json_extract_path_text json_object json_object_agg json_object_agg_strict json_object_agg_unique json_object_keys json_strip_nulls
json_to_record json_to_recordset json_typeof jsonb_agg jsonb_agg_strict jsonb_array_elements jsonb_array_elements_text jsonb_array_length
jsonb_build_array jsonb_build_object jsonb_concat jsonb_contains jsonb_delete jsonb_delete_path jsonb_each jsonb_each_text jsonb_exists jsonb_exists_all
jsonb_exists_any jsonb_extract_path jsonb_extract_path_text jsonb_insert jsonb_object jsonb_object_agg jsonb_object_keys jsonb_path_exists
jsonb_path_exists_tz jsonb_path_match jsonb_path_match_tz jsonb_path_query jsonb_path_query_array jsonb_path_query_array_tz jsonb_path_query_first
jsonb_path_query_first_tz jsonb_path_query_tz jsonb_pretty jsonb_set jsonb_set_lax jsonb_strip_nulls jsonb_to_record jsonb_to_recordset jsonb_typeof
justify_days justify_hours justify_interval lag last_value lcm lead left length lgamma like like_escape line ln localtime localtimestamp log log10 lower
lower_inc lower_inf lpad lseg ltrim macaddr8_set7bit make_date make_interval make_time make_timestamp make_timestamptz masklen max md5 min min_scale mod
mode multirange name netmask network normalize notlike now npoints nth_value ntile num_nonnulls num_nulls numeric numnode nummultirange numrange
obj_description octet_length overlaps overlay parse_ident path pclose percent_rank percentile_cont percentile_disc pg_backend_pid pg_client_encoding
pg_collation_for pg_column_compression pg_column_size pg_conf_load_time pg_current_wal_lsn pg_database_size pg_describe_object pg_encoding_to_char
pg_function_is_visible pg_get_constraintdef pg_get_expr pg_get_function_arguments pg_get_function_identity_arguments pg_get_function_result
pg_get_functiondef pg_get_indexdef pg_get_keywords pg_get_partkeydef pg_get_ruledef pg_get_serial_sequence pg_get_statisticsobjdef pg_get_triggerdef
pg_get_userbyid pg_get_viewdef pg_has_role pg_identify_object pg_index_column_has_property pg_index_has_property pg_indexam_has_property
pg_indexes_size pg_is_in_recovery pg_is_other_temp_schema pg_my_temp_schema pg_partition_ancestors pg_partition_root pg_partition_tree
pg_postmaster_start_time pg_relation_filenode pg_relation_size pg_size_bytes pg_size_pretty pg_table_is_visible pg_table_size pg_tablespace_size
pg_timezone_abbrevs pg_timezone_names pg_total_relation_size pg_trigger_depth pg_type_is_visible pg_typeof pg_wal_lsn_diff phraseto_tsquery pi
plainto_tsquery point polygon popen position pow power querytree quote_ident quote_literal quote_nullable radians radius random random_normal range_agg
range_intersect_agg range_merge rank regexp_count regexp_instr regexp_like regexp_match regexp_matches regexp_replace regexp_split_to_array
regexp_split_to_table regexp_substr regr_avgx regr_avgy regr_count regr_intercept regr_r2 regr_slope regr_sxx regr_sxy regr_syy repeat replace reverse
right round row_number row_security_active row_to_json rpad rtrim scale session_user set_bit set_byte set_masklen setweight sha224 sha256 sha384 sha512
shobj_description sign similar_to_escape sin sind sinh slope split_part sqrt starts_with statement_timestamp stddev stddev_pop stddev_samp string_agg
string_to_array string_to_table strip strpos substr substring sum tan tand tanh text textcat time timeofday timestamp timestamptz timetz timezone to_ascii
to_bin to_char to_date to_hex to_json to_jsonb to_number to_oct to_regclass to_regcollation to_regnamespace to_regoper to_regoperator to_regproc
to_regprocedure to_regrole to_regtype to_regtypemod to_timestamp to_tsquery to_tsvector transaction_timestamp translate trim trim_array trim_scale trunc
ts_debug ts_delete ts_filter ts_headline ts_lexize ts_parse ts_rank ts_rank_cd ts_token_type tsquery_phrase tsrange tsmultirange tstzrange tstzmultirange
tsvector_to_array txid_current_if_assigned unicode_assigned unicode_version unistr unnest upper upper_inc upper_inf user uuid_extract_timestamp
uuid_extract_version uuidv4 uuidv7 var_pop var_samp variance version websearch_to_tsquery width width_bucket
`

// postgresTypes are those that a cast may name, array or not.
const postgresTypes = `
any bit bool boolean box bpchar bytea char cid cidr circle date datemultirange daterange decimal dec float4 float8 inet int int2 int4 int8 int4multirange
int4range int8multirange int8range integer bigint smallint interval json jsonb jsonpath line lseg macaddr macaddr8 money name numeric nummultirange numrange
oid path pg_lsn point polygon real record refcursor regclass regcollation regconfig regdictionary regnamespace regoper regoperator regproc regprocedure
regrole regtype text tid time timestamp timestamptz timetz tsmultirange tsquery tsrange tstzmultirange tstzrange tsvector uuid varbit varchar xid xid8 xml
`

// postgresOperators are the built-in ones, and those of widespread extensions for
// text and vectors. The parser gives LIKE and IN such names too.
const postgresOperators = `
= <> != < > <= >= + - * / % ^ | & # ~ << >> || |/ ||/ @ ~~ ~~* !~~ !~~* ~* !~ !~* ~<~ ~<=~ ~>~ ~>=~ ^@
-> ->> #> #>> #- @> <@ ? ?| ?& @? @@ @@@ && -|- &< &> <<| |>> &<| |&> <-> <#> <=> <+> <^ >^ ?# ?- ?-| ?|| ## @-@ <<= >>= &&& !!
<% %> <<% %>> <<-> <->> <<<-> <->>> ~=
`

const mysqlFunctions = `
abs acos adddate addtime aes_decrypt aes_encrypt any_value approx_count_distinct ascii asin atan atan2 avg bin bin_to_uuid bit_and bit_count bit_length bit_or bit_xor
ceil ceiling char char_func char_length character_length charset coalesce coercibility collation compress concat concat_ws connection_id conv convert
convert_tz cos cot count crc32 cume_dist curdate current_date current_role current_time current_timestamp current_user curtime database
date date_add date_format date_sub datediff day dayname dayofmonth dayofweek dayofyear degrees dense_rank elt exp export_set extract extractvalue field
find_in_set first_value floor format format_bytes format_pico_time found_rows from_base64 from_days from_unixtime get_format greatest group_concat grouping
hex hour icu_version if ifnull in inet6_aton inet6_ntoa inet_aton inet_ntoa insert_func instr interval is_ipv4 is_ipv4_compat is_ipv4_mapped is_ipv6 is_uuid isnull
json_array json_array_append json_array_insert json_arrayagg json_contains json_contains_path json_depth json_extract json_insert json_keys json_length
json_memberof json_merge json_merge_patch json_merge_preserve json_object json_objectagg json_overlaps json_pretty json_quote json_remove json_replace
json_schema_valid json_schema_validation_report json_search json_set json_storage_free json_storage_size json_type json_unquote json_valid json_value
lag last_day last_value lcase lead least left length ln localtime localtimestamp locate log log10 log2 lower lpad ltrim make_set makedate maketime max md5
microsecond mid min minute mod month monthname name_const now nth_value ntile nullif oct octet_length ord percent_rank period_add period_diff pi position
pow power quarter quote radians rand random_bytes rank regexp_instr regexp_like regexp_replace regexp_substr repeat replace reverse right roles_graphml
round row_count row_number rpad rtrim schema sec_to_time second session_user sha sha1 sha2 sign sin soundex space sqrt
st_area st_asbinary st_asgeojson st_astext st_aswkb st_aswkt st_buffer st_centroid st_contains st_convexhull st_crosses st_difference st_dimension
st_disjoint st_distance st_distance_sphere st_endpoint st_envelope st_equals st_exteriorring st_geohash st_geometryn st_geometrytype st_geomfromgeojson
st_geomfromtext st_geomfromwkb st_interiorringn st_intersection st_intersects st_isclosed st_isempty st_issimple st_isvalid st_latitude
st_length st_linefromtext st_longitude st_makeenvelope st_numgeometries st_numinteriorrings st_numpoints st_overlaps st_pointfromgeohash st_pointfromtext
st_pointn st_polyfromtext st_simplify st_srid st_startpoint st_swapxy st_symdifference st_touches st_transform st_union st_validate st_within st_x st_y
statement_digest statement_digest_text std stddev stddev_pop stddev_samp str_to_date strcmp subdate substr substring substring_index subtime sum sysdate
system_user tan time time_format time_to_sec timediff timestamp timestampadd timestampdiff to_base64 to_days to_seconds translate trim truncate ucase
uncompress uncompressed_length unhex unix_timestamp upper user utc_date utc_time utc_timestamp uuid uuid_to_bin
validate_password_strength var_pop var_samp variance version week weekday weekofyear weight_string year yearweek
`

// trinoFunctions also has the names that the parser of PostgreSQL gives to syntax:
// btrim for TRIM, timezone for AT TIME ZONE.
const trinoFunctions = `
abs acos all_match any_match any_value approx_distinct approx_most_frequent approx_percentile approx_set arbitrary array_agg array_distinct array_except
array_first array_histogram array_intersect array_join array_last array_max array_min array_position array_remove array_sort array_union arrays_overlap asin
at_timezone atan atan2 avg bar beta_cdf bing_tile bing_tile_at bing_tile_coordinates bing_tile_polygon bing_tile_quadkey bing_tile_zoom_level bit_count
bitwise_and bitwise_and_agg bitwise_left_shift bitwise_not bitwise_or bitwise_or_agg bitwise_right_shift bitwise_right_shift_arithmetic bitwise_xor
bitwise_xor_agg bool_and bool_or btrim cardinality cbrt ceil ceiling char2hexint checksum chr classify codepoint color combinations concat concat_ws
contains contains_sequence convex_hull_agg corr cos cosh cosine_distance cosine_similarity count count_if covar_pop covar_samp crc32 cume_dist current_groups
current_timezone date date_add date_diff date_format date_parse date_trunc day day_of_month day_of_week day_of_year degrees dense_rank dot_product dow doy e
element_at empty_approx_set euclidean_distance evaluate_classifier_predictions every exp extract features filter first_value flatten floor format format_datetime
format_number from_base from_base32 from_base64 from_base64url from_big_endian_32 from_big_endian_64 from_encoded_polyline from_geojson_geometry from_hex
from_ieee754_32 from_ieee754_64 from_iso8601_date from_iso8601_timestamp from_iso8601_timestamp_nanos from_unixtime from_unixtime_nanos from_utf8
geometric_mean geometry_from_hadoop_shape geometry_invalid_reason geometry_nearest_points geometry_to_bing_tiles geometry_union geometry_union_agg
great_circle_distance greatest hamming_distance hash_counts histogram hmac_md5 hmac_sha1 hmac_sha256 hmac_sha512 hour human_readable_seconds if index infinity
intersection_cardinality inverse_beta_cdf inverse_normal_cdf is_finite is_infinite is_json_scalar is_nan jaccard_index json_array_contains json_array_get
json_array_length json_extract json_extract_scalar json_format json_parse json_size kurtosis lag last_day_of_month last_value lead learn_classifier
learn_libsvm_classifier learn_libsvm_regressor learn_regressor least length levenshtein_distance line_interpolate_point line_interpolate_points
line_locate_point listagg ln localtime localtimestamp log log10 log2 lower lpad ltrim luhn_check make_set_digest map map_agg map_concat map_entries map_filter
map_from_entries map_keys map_union map_values map_zip_with max max_by md5 merge merge_set_digest millisecond min min_by minute mod month multimap_agg
multimap_from_entries murmur3 nan ngrams none_match normal_cdf normalize now nth_value ntile nullif numeric_histogram parse_data_size parse_datetime parse_duration
parse_presto_data_size percent_rank pi position pow power qdigest_agg quantile_at_value quarter radians rand random rank reduce reduce_agg regexp_count
regexp_extract regexp_extract_all regexp_like regexp_position regexp_replace regexp_split regr_intercept regr_slope regress render repeat replace reverse rgb
round row_number rpad rtrim second sequence sha1 sha256 sha512 shuffle sign simplify_geometry sin sinh skewness slice soundex spatial_partitioning
spatial_partitions split split_part split_to_map split_to_multimap spooky_hash_v2_32 spooky_hash_v2_64 sqrt st_area st_asbinary st_astext st_boundary st_buffer
st_centroid st_contains st_convexhull st_coorddim st_crosses st_difference st_dimension st_disjoint st_distance st_endpoint st_envelope st_envelopeaspts st_equals
st_exteriorring st_geometries st_geometryfromtext st_geometryn st_geometrytype st_geomfrombinary st_interiorringn st_interiorrings st_intersection st_intersects
st_isclosed st_isempty st_isring st_issimple st_isvalid st_length st_linefromtext st_linestring st_multipoint st_numgeometries st_numinteriorring
st_numpoints st_overlaps st_point st_pointn st_points st_polygon st_relate st_startpoint st_symdifference st_touches st_union st_within st_x st_xmax st_xmin st_y
st_ymax st_ymin starts_with stddev stddev_pop stddev_samp strpos substr substring sum t_cdf t_pdf tan tanh tdigest_agg theta_sketch_estimate timestamp_objectid timezone
timezone_hour timezone_minute to_base to_base32 to_base64 to_base64url to_big_endian_32 to_big_endian_64 to_char to_date to_encoded_polyline
to_geojson_geometry to_geometry to_hex to_ieee754_32 to_ieee754_64 to_iso8601 to_milliseconds to_spherical_geography to_timestamp to_unixtime to_utf8
transform transform_keys transform_values translate trim trim_array truncate try typeof unnest upper url_decode url_encode url_extract_fragment url_extract_host
url_extract_parameter url_extract_path url_extract_port url_extract_protocol url_extract_query uuid value_at_quantile values_at_quantiles var_pop var_samp
variance version week week_of_year width_bucket wilson_interval_lower wilson_interval_upper with_timezone word_stem xxhash64 year year_of_week yow zip zip_with
`

const trinoOperators = `
= <> != < > <= >= + - * / % || -> ~~ !~~
`
