-- row: 60
-- where: plan
-- expect: error
-- says: is no apiVersion
return { a = fence.get('v1/namespaces/x/secrets', 'pods', 'a', 'b') }
