#!/bin/sh
# Certificates of one cluster: an authority that signs one key pair and is thrown away, so that
# nobody, not even who made it, can sign another. Dask checks the authority and not the name in the
# certificate: make a new set for every namespace, and before DAYS have passed.
#
#   deploy/certificates.sh FOLDER [DAYS]     writes ca.crt, tls.crt, tls.key; default 30 days
set -eu

folder=${1:?"usage: certificates.sh FOLDER [DAYS]"}
days=${2:-30}
if [ -e "$folder" ]; then
    echo "$folder is there already; pass a new folder, or remove it first." >&2
    exit 2
fi
umask 077
mkdir "$folder"
cd "$folder"
trap 'rm -f ca.key ca.srl tls.csr tls.ext' EXIT

openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days "$days" \
    -subj "/CN=dhsic authority" -keyout ca.key -out ca.crt \
    -addext "keyUsage=critical,keyCertSign,cRLSign"
openssl req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes \
    -subj "/CN=dhsic" -keyout tls.key -out tls.csr
cat > tls.ext <<END
basicConstraints=critical,CA:FALSE
keyUsage=critical,digitalSignature
extendedKeyUsage=serverAuth,clientAuth
subjectAltName=DNS:dhsic-scheduler
subjectKeyIdentifier=hash
authorityKeyIdentifier=keyid
END
openssl x509 -req -in tls.csr -CA ca.crt -CAkey ca.key -CAcreateserial -days "$days" \
    -extfile tls.ext -out tls.crt
openssl verify -x509_strict -CAfile ca.crt tls.crt >/dev/null

cat >&2 <<END
ca.crt, tls.crt and tls.key are in $folder, for $days days. Now, on Slurm and elsewhere: keep them there,
readable by you alone (TLS=$folder for run.sbatch). On Kubernetes, make a Secret of them:
  kubectl -n dhsic create secret generic dhsic-tls \\
      --from-file=$folder/ca.crt --from-file=$folder/tls.crt --from-file=$folder/tls.key
  rm -r $folder
END
