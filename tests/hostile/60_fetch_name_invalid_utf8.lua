-- row: 60
-- where: fetch
-- expect: error
-- says: as a name; a name has 1 to 253 bytes
return { ['\xff'] = fence.http('storage', '/v2') }
